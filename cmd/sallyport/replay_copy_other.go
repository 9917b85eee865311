//go:build !linux

package main

import (
	"errors"
	"fmt"
)

func own(string, string) error {
	return fmt.Errorf("run calls again: cells need Linux: %w", errors.ErrUnsupported)
}
