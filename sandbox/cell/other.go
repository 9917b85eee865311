//go:build !linux

package cell

import (
	"errors"
	"fmt"
)

// errNoWalls is what every act says where there are no walls.
var errNoWalls = fmt.Errorf("raise walls: only Linux has them: %w", errors.ErrUnsupported)

// Starter fails: there are no walls here.
func Starter() error { return errNoWalls }

// Cell fails: there are no walls here.
func Cell() error { return errNoWalls }

// Names lists no walls.
func Names() []string { return nil }
