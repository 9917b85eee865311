package main

import (
	"context"
	"os"
	"time"
)

// parentPolled blocks until the process that started this one has ended (true)
// or ctx ends (false), where the kernel does not tell of it.
func parentPolled(ctx context.Context, parent int) bool {
	t := time.NewTicker(50 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-t.C:
			if os.Getppid() != parent {
				return true
			}
		}
	}
}
