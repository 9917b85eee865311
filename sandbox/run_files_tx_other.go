//go:build !linux

package sandbox

import "context"

// Land fails with an error that wraps errors.ErrUnsupported.
func (r *Runner) Land(ctx context.Context, tx string) ([]Change, error) {
	return txStore{}.Land(ctx, tx)
}

// Drop fails with an error that wraps errors.ErrUnsupported.
func (r *Runner) Drop(tx string) error { return txStore{}.Drop(tx) }

// TxContent fails with an error that wraps errors.ErrUnsupported.
func (r *Runner) TxContent(tx, path string) ([]byte, error) { return txStore{}.TxContent(tx, path) }

// Keep fails: no command runs here that could leave a transaction.
func (r *Runner) Keep(string, []byte) error { return r.why() }

// Kept finds none.
func (r *Runner) Kept() (map[string][]byte, error) { return nil, nil }
