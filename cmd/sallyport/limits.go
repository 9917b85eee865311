package main

import (
	"time"

	"sallyport/policy"
)

// noLimits admits everything.
type noLimits struct{}

func (noLimits) Admit(time.Time, policy.Agent, string, string) error      { return nil }
func (noLimits) Observe(time.Time, policy.Agent, string, bool, int, bool) {}
func (noLimits) Session(string) policy.Session                            { return policy.Session{} }
