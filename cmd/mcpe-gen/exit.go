package main

import (
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/gen/breaking/against"
)

// The exit codes of every verb.
const (
	exitOK          = 0
	exitFailure     = 1 // internal or I/O failure
	exitUsage       = 2 // usage or config error
	exitDiagnostics = 3 // errors in event files; with --strict also warnings
	exitDrift       = 4 // --check found files to create, update or delete
	exitBreaking    = 5 // breaking found changes that break somebody
	exitConform     = 6 // conform found a requirement that does not hold
	exitDoctor      = 7 // doctor found something that fails; with --strict also warnings
	exitUnfinished  = 8 // conform found nothing wrong, and ended before it had judged what it could
)

// An exit ends a run with a code. A nil err means that everything worth saying has been said.
type exit struct {
	code int
	err  error
	// misused tells that the help text of the verb would have helped.
	misused bool
	// lines are what to write by hand instead, shown below err.
	lines []string
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// usagef is a mistake in the command line itself: one line that points to the help text.
func usagef(format string, args ...any) error {
	return &exit{code: exitUsage, err: fmt.Errorf(format, args...), misused: true}
}

// refuse is any other mistake of the caller's: a config, a directory, a file that is in the way.
func refuse(err error) error { return &exit{code: exitUsage, err: err} }

// silent ends a run whose reasons are already on standard error.
func silent(code int) error { return &exit{code: code} }

// asExit is err as an exit; what no verb gave a code is a failure.
func asExit(err error) *exit {
	if err == nil {
		return &exit{code: exitOK}
	}
	if e, ok := errors.AsType[*exit](err); ok {
		return e
	}
	if e, ok := errors.AsType[*gen.UsageError](err); ok {
		return &exit{code: exitUsage, err: e}
	}
	if _, ok := errors.AsType[*against.RevisionError](err); ok {
		return &exit{code: exitUsage, err: err}
	}
	return &exit{code: exitFailure, err: err}
}
