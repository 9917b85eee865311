package sandbox

import (
	"context"
	"path/filepath"
)

// store holds the Runner's transactions.
func (r *Runner) store() txStore { return txStore{filepath.Join(r.opts.State, "tx")} }

// Land brings the changes of Result.Tx into the workspace; see txStore.Land.
func (r *Runner) Land(ctx context.Context, tx string) ([]Change, error) {
	return r.store().Land(ctx, tx)
}

// Drop forgets the changes of Result.Tx; see txStore.Drop.
func (r *Runner) Drop(tx string) error { return r.store().Drop(tx) }

// TxContent is a file as Result.Tx has it; see txStore.TxContent.
func (r *Runner) TxContent(tx, path string) ([]byte, error) { return r.store().TxContent(tx, path) }

// Keep lets Result.Tx outlive this Runner, with a note; see txStore.Keep.
func (r *Runner) Keep(tx string, note []byte) error { return r.store().Keep(tx, note) }

// Kept are the transactions that were kept; see txStore.Kept.
func (r *Runner) Kept() (map[string][]byte, error) { return r.store().Kept() }
