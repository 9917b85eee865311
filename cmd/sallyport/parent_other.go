//go:build !linux

package main

import (
	"context"
	"os"
	"syscall"
)

// parentEnds blocks until the process that started this one has ended (true) or
// ctx ends (false).
func parentEnds(ctx context.Context) bool { return parentPolled(ctx, os.Getppid()) }

// stopped cannot be told here.
func stopped(int) bool { return false }

// ended reports whether a process has ended.
func ended(pid int) bool { return syscall.Kill(pid, 0) != nil }

// readerGone cannot be told here.
func readerGone(*os.File) bool { return false }

// nameOf calls the process behind a socket.
func nameOf(int) string { return "the daemon" }

func isDaemon(int) bool { return false }

func holderOf(string) int { return 0 }
