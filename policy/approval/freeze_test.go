package approval_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/policy/approval"
)

func TestAFreezeStopsAndIsKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.settle(t, edit()).Request.ID
	_, err := f.Approve(id, bob, approval.ApproveOptions{})
	require.NoError(t, err)

	agent := approval.Scope{Agent: "claude-code"}
	require.NoError(t, f.Freeze(agent, ann))
	out := f.settle(t, edit())
	require.Equal(t, approval.StateFrozen, out.State)
	require.Contains(t, out.Advice, "ann froze agent claude-code")
	other := edit(func(a *approval.Ask) { a.Subject.Agent = "codex" })
	require.Equal(t, approval.StatePending, f.settle(t, other).State)

	f.reopen(t)
	frozen, _ := f.Frozen("claude-code")
	require.True(t, frozen)
	require.ErrorIs(t, f.Lift(agent, approval.Person{Name: "claude-code", Channel: "agent"}), approval.ErrRefused)
	require.ErrorIs(t, f.Lift(approval.Scope{All: true}, ann), approval.ErrNotFound)
	require.ErrorIs(t, f.Lift(approval.Scope{}, ann), approval.ErrInvalid)
	require.NoError(t, f.Lift(agent, ann))
	require.Equal(t, approval.StateApproved, f.settle(t, edit()).State, "the approval was kept")
	f.reopen(t)
	require.Empty(t, f.Freezes())
}

// The desk is busy when the record of another change takes long. A freeze does
// not wait for it, and a call that is being settled meanwhile is refused.
func TestAFreezeDoesNotWaitForABusyDesk(t *testing.T) {
	t.Parallel()
	var busy atomic.Bool
	entered, release := make(chan struct{}), make(chan struct{})
	f := newFixture(t, func(o *approval.Options) {
		o.Record = func(approval.Event) error {
			if busy.CompareAndSwap(true, false) {
				close(entered)
				<-release
			}
			return nil
		}
	})
	events, cancel := f.Subscribe()
	defer cancel()
	busy.Store(true)
	settled, frozen := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(settled)
		_, err := f.Settle(t.Context(), edit())
		assert.NoError(t, err)
	}()
	<-entered
	go func() { frozen <- f.Freeze(approval.Scope{All: true}, ann) }()

	select {
	case e := <-events:
		require.Equal(t, approval.Frozen, e.Kind)
	case <-time.After(10 * time.Second):
		t.Fatal("the freeze waits for the desk")
	}
	stands, _ := f.Frozen("anybody")
	require.True(t, stands)
	close(release)
	<-settled
	require.NoError(t, <-frozen)
	require.Equal(t, approval.StateFrozen, f.settle(t, edit()).State)
}
