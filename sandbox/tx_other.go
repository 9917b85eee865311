//go:build !linux

package sandbox

import "context"

// txStore keeps transactions, which need overlayfs.
type txStore struct{ dir string }

func (txStore) create(workspace string) (id, upper, work string, err error) {
	return "", "", "", unsupported("begin a transaction over", workspace)
}

func (txStore) begin(_, workspace string) error {
	return unsupported("begin a transaction over", workspace)
}

func (txStore) changes(id string) ([]Change, error) {
	return nil, unsupported("open the transaction", id)
}

// Land fails with an error that wraps errors.ErrUnsupported.
func (txStore) Land(_ context.Context, id string) ([]Change, error) {
	return nil, unsupported("land the transaction", id)
}

// Drop fails with an error that wraps errors.ErrUnsupported.
func (txStore) Drop(id string) error { return unsupported("drop the transaction", id) }

// TxContent fails with an error that wraps errors.ErrUnsupported.
func (txStore) TxContent(id, _ string) ([]byte, error) {
	return nil, unsupported("open the transaction", id)
}
