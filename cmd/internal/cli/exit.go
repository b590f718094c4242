package cli

import (
	"errors"
	"fmt"
)

// These exit codes are common to all commands.
const (
	OK      = 0
	Failure = 1 // internal or I/O failure
	Usage   = 2 // usage or config error
)

// An Exit is an error that ends a run with an exit code. If Err is nil, the reasons have already been printed to
// standard error.
type Exit struct {
	Code int
	Err  error
	// Misused reports whether the message refers the user to the verb's help text.
	Misused bool
	// Lines are the lines that the user has to add manually. They are printed below Err.
	Lines []string
}

func (e *Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Exit) Unwrap() error { return e.Err }

// Usagef returns an error in the command line itself. Its message points to the help text.
func Usagef(format string, args ...any) error {
	return &Exit{Code: Usage, Err: fmt.Errorf(format, args...), Misused: true}
}

// Refuse returns any other usage error, such as an invalid config or a file or directory in the way.
func Refuse(err error) error { return &Exit{Code: Usage, Err: err} }

// Refusef is [Refuse] with a formatted message.
func Refusef(format string, args ...any) error { return Refuse(fmt.Errorf(format, args...)) }

// Silent returns an error for a run that has already printed its reasons to standard error.
func Silent(code int) error { return &Exit{Code: code} }

// ExitOf returns err as an Exit. An error without an exit code is a failure unless Misuse reports that it is a usage
// error.
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
