package approval_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/policy"
	"sallyport/policy/approval"
)

func TestAnApprovedCallRunsExactlyOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)

	first := f.settle(t, edit())
	require.Equal(t, approval.StatePending, first.State)
	require.Len(t, first.Request.ID, 6)
	again := f.settle(t, edit())
	require.Equal(t, first.Request.ID, again.Request.ID, "a repeated call is the same request")

	r, err := f.Approve(first.Request.ID, bob, approval.ApproveOptions{Note: "fine"})
	require.NoError(t, err)
	require.Equal(t, approval.StateApproved, r.State)

	run := f.settle(t, edit())
	require.Equal(t, approval.StateApproved, run.State)
	require.Equal(t, "bob (console)", run.Person)
	require.NoError(t, f.Finish(run.Request.ID, "ok"))

	next := f.settle(t, edit())
	require.Equal(t, approval.StatePending, next.State)
	require.NotEqual(t, first.Request.ID, next.Request.ID)
	require.Empty(t, next.Request.Unknown)
	require.Equal(t, []approval.Kind{approval.Requested, approval.Approved, approval.Used, approval.Done, approval.Requested}, f.kinds())
}

func TestOfManyRacingCallsOneRuns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.settle(t, edit()).Request.ID
	_, err := f.Approve(id, bob, approval.ApproveOptions{})
	require.NoError(t, err)

	var wg sync.WaitGroup
	var mu sync.Mutex
	states := map[approval.State]int{}
	ids := map[string]bool{}
	for range 16 {
		wg.Go(func() {
			out, err := f.Settle(context.Background(), edit())
			assert.NoError(t, err)
			mu.Lock()
			defer mu.Unlock()
			states[out.State]++
			ids[out.Request.ID] = true
		})
	}
	wg.Wait()
	require.Equal(t, map[approval.State]int{approval.StateApproved: 1, approval.StatePending: 15}, states)
	require.Len(t, ids, 2, "the other fifteen wait for one new approval")
}

func TestADenialIsRepeatedWithItsAdvice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.settle(t, edit()).Request.ID
	_, err := f.Deny(id, bob, "use the config package instead", "")
	require.NoError(t, err)

	out := f.settle(t, edit())
	require.Equal(t, approval.StateDenied, out.State)
	require.Equal(t, "use the config package instead", out.Advice)
	require.Equal(t, "bob (console)", out.Person)

	f.pass(approval.DefaultDeniedFor)
	require.Equal(t, approval.StatePending, f.settle(t, edit()).State, "a denial is not for ever")
}

func TestTimeEndsWhatNobodyDecides(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.settle(t, edit()).Request.ID
	f.pass(approval.DefaultTTL)
	_, err := f.Approve(id, bob, approval.ApproveOptions{})
	require.ErrorIs(t, err, approval.ErrDecided)
	require.ErrorContains(t, err, "expired")

	second := f.settle(t, edit()).Request.ID
	require.NotEqual(t, id, second)
	_, err = f.Approve(second, bob, approval.ApproveOptions{})
	require.NoError(t, err)
	f.pass(approval.DefaultApprovedTTL)
	require.Equal(t, approval.StatePending, f.settle(t, edit()).State, "an approval that was not used in time is over")

	require.NoError(t, f.Sweep())
	require.NoError(t, f.Sweep())
	expired := 0
	for _, k := range f.kinds() {
		if k == approval.Expired {
			expired++
		}
	}
	require.Equal(t, 2, expired, "each expiry is one event")
}

func TestTheDeskSurvivesARestart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.settle(t, edit()).Request.ID
	f.reopen(t)
	require.Equal(t, id, f.settle(t, edit()).Request.ID)
	_, err := f.Approve(id, bob, approval.ApproveOptions{})
	require.NoError(t, err)
	f.reopen(t)

	require.Equal(t, approval.StateApproved, f.settle(t, edit()).State)
	f.reopen(t) // the run was started and Finish never came

	r, err := f.Get(id)
	require.NoError(t, err)
	require.Equal(t, approval.StateUnknown, r.State)
	next := f.settle(t, edit())
	require.Equal(t, approval.StatePending, next.State)
	require.Equal(t, id, next.Request.Unknown)

	_, err = f.Approve(next.Request.ID, bob, approval.ApproveOptions{})
	require.NoError(t, err)
	run := f.settle(t, edit())
	require.Equal(t, approval.StateApproved, run.State, "a person who knows may repeat it")
	require.NoError(t, f.Finish(run.Request.ID, "ok"))
	require.Empty(t, f.settle(t, edit()).Request.Unknown)
}

func TestAGrantDoesNotRepeatAnUnknownRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, err := f.AddGrant(approval.Grant{Tool: "edit_file", By: ann})
	require.NoError(t, err)
	require.Equal(t, approval.StateApproved, f.settle(t, edit()).State)
	f.reopen(t)
	out := f.settle(t, edit())
	require.Equal(t, approval.StatePending, out.State)
	require.NotEmpty(t, out.Request.Unknown)
	require.Equal(t, out.Request.ID, f.settle(t, edit()).Request.ID)

	require.NoError(t, f.Finish(out.Request.Unknown, "ok"), "who finds out how it ended may say so")
	require.Equal(t, approval.StateApproved, f.settle(t, edit()).State)
}

func TestWhatCannotBeRecordedDoesNotHappen(t *testing.T) {
	t.Parallel()
	var broken error
	f := newFixture(t, func(o *approval.Options) {
		o.Record = func(approval.Event) error { return broken }
	})
	id := f.settle(t, edit()).Request.ID
	broken = errors.New("disk full")

	_, err := f.Approve(id, bob, approval.ApproveOptions{})
	require.ErrorContains(t, err, "disk full")
	_, err = f.Settle(t.Context(), edit(args(`{}`)))
	require.ErrorContains(t, err, "record approval.requested: disk full; nothing was changed")
	r, err := f.Get(id)
	require.NoError(t, err)
	require.Equal(t, approval.StatePending, r.State)

	broken = nil
	_, err = f.Approve(id, bob, approval.ApproveOptions{})
	require.NoError(t, err)
	broken = errors.New("disk full")
	_, err = f.Settle(t.Context(), edit())
	require.Error(t, err, "a use that is not recorded is not a use")
	broken = nil
	require.Equal(t, approval.StateApproved, f.settle(t, edit()).State)
}

func TestEveryFieldOfTheSubjectIsInItsDigest(t *testing.T) {
	t.Parallel()
	base := edit().Subject
	seen := map[string]string{base.Digest(): "unchanged"}
	for i := range reflect.TypeFor[approval.Subject]().NumField() {
		s := edit().Subject
		name := reflect.TypeFor[approval.Subject]().Field(i).Name
		switch v := reflect.ValueOf(&s).Elem().Field(i); v.Kind() {
		case reflect.String:
			v.SetString(v.String() + "x")
		case reflect.Slice:
			v.SetBytes([]byte(`{"x":1}`))
		case reflect.Map:
			v.Set(reflect.ValueOf(map[string]string{"main.go": "bb22"}))
		default:
			t.Fatalf("field %s has a kind this test does not know", name)
		}
		require.NotContains(t, seen, s.Digest(), name)
		seen[s.Digest()] = name
	}
	a, b := base, base
	a.Agent, a.Session = "ab", "c"
	b.Agent, b.Session = "a", "bc"
	require.NotEqual(t, a.Digest(), b.Digest(), "parts do not run into each other")
	a, b = base, base
	a.Files, b.Files = map[string]string{"x": ""}, nil
	require.NotEqual(t, a.Digest(), b.Digest(), "an absent file is not an unnamed one")
}

func TestWhatChangedIsSaidAndTheOldRequestWithdrawn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	old := f.settle(t, edit()).Request.ID
	out := f.settle(t, edit(func(a *approval.Ask) {
		a.Subject.Files = map[string]string{"main.go": "ff00", "go.mod": ""}
		a.Subject.Revision = "r2"
	}))
	require.Equal(t, approval.StatePending, out.State)
	require.Equal(t, old, out.Request.Earlier)
	require.Equal(t, []string{"policy revision: r1 → r2", "file go.mod is named now", "file main.go has other content"}, out.Changed)

	r, err := f.Get(old)
	require.NoError(t, err)
	require.Equal(t, approval.StateWithdrawn, r.State)
	require.Contains(t, r.Why, out.Request.ID)
}

func TestWaitEndsWithTheDecision(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.settle(t, edit()).Request.ID
	got := make(chan approval.Request)
	go func() {
		r, err := f.Wait(t.Context(), id)
		assert.NoError(t, err)
		got <- r
	}()
	_, err := f.Approve(id, bob, approval.ApproveOptions{})
	require.NoError(t, err)
	require.Equal(t, approval.StateApproved, (<-got).State)

	other := f.settle(t, edit(args(`{}`))).Request.ID
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := f.Wait(ctx, other)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, approval.StatePending, r.State)

	go func() {
		r, err := f.Wait(t.Context(), other)
		assert.NoError(t, err)
		got <- r
	}()
	f.pass(time.Hour)
	require.NoError(t, f.Sweep())
	require.Equal(t, approval.StateExpired, (<-got).State)
}

func TestASessionCannotFloodTheDesk(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *approval.Options) { o.MaxPending = 3 })
	for i := range 3 {
		f.settle(t, edit(args(fmt.Sprintf(`{"n":%d}`, i))))
	}
	_, err := f.Settle(t.Context(), edit(args(`{"n":3}`)))
	require.ErrorIs(t, err, approval.ErrInvalid)
	f.settle(t, edit(args(`{"n":3}`), func(a *approval.Ask) { a.Subject.Session = "s2" }))
}

func TestTheFileIsPrivateAndHasOneOwner(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	info, err := os.Stat(f.path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	_, err = approval.Open(f.path, approval.Options{})
	require.ErrorContains(t, err, "another sallyport holds it")
}

func TestAPolicyDenialNeverReachesAPerson(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	out := f.settle(t, edit(func(a *approval.Ask) { a.Decision.Verdict = policy.Deny }))
	require.Equal(t, approval.StateDenied, out.State)
	require.Empty(t, f.kinds())
}

func TestIDsAreForgiving(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *approval.Options) { o.Rand = &counting{} })
	a := f.settle(t, edit()).Request.ID
	b := f.settle(t, edit(args(`{}`))).Request.ID
	require.NotEqual(t, a, b)
	require.Equal(t, "000001", a)
	for _, typed := range []string{"000001", "ooO-ool", " 000001 "} {
		r, err := f.Get(typed)
		require.NoError(t, err, typed)
		require.Equal(t, a, r.ID)
	}
	_, err := f.Get("0000")
	require.ErrorContains(t, err, "begins 2 ids")
	require.ErrorIs(t, err, approval.ErrNotFound)
	_, err = f.Get("00")
	require.ErrorContains(t, err, "too short")

	_, err = f.Deny(b, bob, "", "")
	require.NoError(t, err)
	r, err := f.Get("0000")
	require.NoError(t, err, "among open requests it is unique")
	require.Equal(t, a, r.ID)
}

// counting is a source of ids that differ in their last character.
type counting struct{ n byte }

func (c *counting) Read(b []byte) (int, error) {
	clear(b)
	c.n++
	b[3] = c.n << 2 // an id is the first thirty bits
	return len(b), nil
}

func TestThePastFadesAndIsForgotten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	old := f.settle(t, edit(args(`{"secret":"hunter2"}`)))
	_, err := f.Deny(old.Request.ID, bob, "no", "")
	require.NoError(t, err)
	f.pass(approval.DefaultFade + time.Minute)
	sweep := func() {
		f.settle(t, edit(args(f.Now().Format(`"2006-01-02"`))))
		f.pass(time.Hour)
		require.NoError(t, f.Sweep())
		require.NoError(t, f.Sweep())
	}
	sweep()
	r, err := f.Get(old.Request.ID)
	require.NoError(t, err)
	require.Equal(t, "edit_file: edit main.go", r.Show.Summary)
	require.Empty(t, r.Show.Diff)
	require.Contains(t, r.Show.Cut[0], "not kept")
	require.Equal(t, "{}", string(r.Subject.Args))
	require.Equal(t, old.Request.Digest, r.Digest)
	sweep()
	f.pass(approval.DefaultKeep)
	sweep()
	_, err = f.Get(old.Request.ID)
	require.ErrorIs(t, err, approval.ErrNotFound)
	again := f.settle(t, edit(args(`{"secret":"hunter2"}`)))
	require.Equal(t, approval.StatePending, again.State)
	require.Empty(t, again.Changed)
	all, err := f.List(approval.Filter{All: true})
	require.NoError(t, err)
	require.Len(t, all, 2)
}
