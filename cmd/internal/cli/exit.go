package cli

import (
	"errors"
	"fmt"
)

// The exit codes that all commands share.
const (
	OK      = 0
	Failure = 1 // internal or I/O failure
	Usage   = 2 // usage or config error
)

// An Exit ends a run with a code. If Err is nil, the reasons are already on standard error.
type Exit struct {
	Code int
	Err  error
	// Misused reports whether the verb's help text would have helped.
	Misused bool
	// Lines are the lines that the user has to write by hand instead, shown below Err.
	Lines []string
}

func (e *Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Exit) Unwrap() error { return e.Err }

// Usagef returns a mistake in the command line itself: one line that points to the help text.
func Usagef(format string, args ...any) error {
	return &Exit{Code: Usage, Err: fmt.Errorf(format, args...), Misused: true}
}

// Refuse returns any other mistake of the caller: an invalid config, or a directory or file that is in the way.
func Refuse(err error) error { return &Exit{Code: Usage, Err: err} }

// Silent ends a run whose reasons are already on standard error.
func Silent(code int) error { return &Exit{Code: code} }

// ExitOf returns err as an Exit. An error to which no verb gave a code is a failure, unless Misuse claims it.
func (p *Program) ExitOf(err error) *Exit {
	if err == nil {
		return &Exit{Code: OK}
	}
	if e, ok := errors.AsType[*Exit](err); ok {
		return e
	}
	if p.Misuse != nil && p.Misuse(err) {
		return &Exit{Code: Usage, Err: err}
	}
	return &Exit{Code: Failure, Err: err}
}
