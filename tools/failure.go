package tools

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"sallyport/sandbox"
)

// FailureKind says at which point a call failed.
type FailureKind string

// The failure kinds.
const (
	KindToolNotFound      FailureKind = "tool_not_found"
	KindInvalidParameters FailureKind = "invalid_parameters"
	KindExecutionFailed   FailureKind = "execution_failed"
	KindTimeout           FailureKind = "timeout"
)

// FailureClass says what can be done about a failure.
type FailureClass string

// The failure classes.
const (
	Transient     FailureClass = "transient"     // the same call may work later
	Fixable       FailureClass = "fixable"       // other arguments will work
	Unrecoverable FailureClass = "unrecoverable" // the agent cannot change it; a person may
)

// Failure is a failed call, for a model and for programs.
type Failure struct {
	Kind   FailureKind  `json:"kind"`
	Class  FailureClass `json:"class"`
	Msg    string       `json:"message"`
	Remedy string       `json:"remedy"`
}

func (f Failure) Error() string { return f.Msg }

// Text is what the model reads.
func (f Failure) Text() string {
	text := fmt.Sprintf("Error: %s\nKind: %s (%s)", f.Msg, f.Kind, f.Class)
	if f.Remedy != "" {
		text += "\nWhat to do: " + f.Remedy
	}
	return text
}

func invalid(msg, remedy string) *Failure {
	return &Failure{Kind: KindInvalidParameters, Class: Fixable, Msg: msg, Remedy: remedy}
}

// FailureOf classes whatever a plan or a run ended with.
func FailureOf(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	var e *sandbox.Error
	if !errors.As(err, &e) {
		return &Failure{Kind: KindExecutionFailed, Class: Unrecoverable, Msg: err.Error(), Remedy: "tell the person who runs sallyport; `sallyport doctor` may show the cause"}
	}
	f = &Failure{Kind: KindExecutionFailed, Class: Fixable, Msg: e.Error(), Remedy: e.Remedy}
	switch e.Kind {
	case sandbox.KindTimeout:
		f.Kind = KindTimeout
	case sandbox.KindCanceled:
		f.Class = Transient
	case sandbox.KindWalls:
		f.Class = Unrecoverable
	case sandbox.KindIO:
		f.Class = Transient
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
			f.Class = Unrecoverable
		}
	}
	return f
}
