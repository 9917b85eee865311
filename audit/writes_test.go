package audit

import (
	"reflect"
	"unsafe"

	"go.etcd.io/bbolt"
)

// writeAt is how bbolt writes to its file.
type writeAt = func(b []byte, off int64) (int, error)

// writeHook stands between bbolt and its file. bbolt keeps the function in a
// field for its own tests; there is no other place to see every write.
type writeHook struct {
	field *writeAt
	real  writeAt
}

func hookWrites(db *bbolt.DB) writeHook {
	f := reflect.ValueOf(db).Elem().FieldByName("ops").FieldByName("writeAt")
	field := (*writeAt)(unsafe.Pointer(f.UnsafeAddr()))
	return writeHook{field, *field}
}

func (h writeHook) set(fn writeAt) { *h.field = fn }
func (h writeHook) restore()       { *h.field = h.real }
