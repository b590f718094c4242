package verdict

import (
	"errors"
	"fmt"
)

// A Violation is what a check found wrong.
type Violation struct {
	// Request and Answer are what was sent and what came back; nil for nothing.
	Request, Answer []byte
	Expected, Got   string
	// Mild tells that there may be reasons for it: an advice, whatever the check is.
	Mild bool
}

// Error says what was expected and what came.
func (v *Violation) Error() string { return "expected " + v.Expected + ", got " + v.Got }

// A Skipped tells why a check could not be made.
type Skipped string

// Error returns the reason.
func (s Skipped) Error() string { return string(s) }

// Skipf makes a Skipped.
func Skipf(format string, args ...any) error { return Skipped(fmt.Sprintf(format, args...)) }

// UnjudgedError says why the run could not finish a check that applies.
type UnjudgedError string

// Error returns the reason.
func (e UnjudgedError) Error() string { return string(e) }

// Unjudgedf makes an UnjudgedError.
func Unjudgedf(format string, args ...any) error { return UnjudgedError(fmt.Sprintf(format, args...)) }

// ErrRunEnded is the error of a check that the run did not reach, or ended in the middle.
const ErrRunEnded = UnjudgedError("the run ended before")

// A UsageError tells that what was asked for cannot be done, such as an event that does not exist.
type UsageError struct{ Message string }

// Error returns the message.
func (e *UsageError) Error() string { return e.Message }

// Usagef makes a UsageError.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// Finding is what a check of a requirement found by the error it ended with: nil, a *Violation, a Skipped,
// an UnjudgedError, or any other, which stands for no answer. Advice is true of a check that no document demands.
func (r *Redactor) Finding(id, title string, advice bool, err error) Finding {
	f := Finding{ID: id, Title: title, Outcome: Pass}
	if err == nil {
		return f
	}
	if why, ok := errors.AsType[Skipped](err); ok {
		f.Outcome, f.Got = Skip, r.Shown([]byte(why))
		return f
	}
	if why, ok := errors.AsType[UnjudgedError](err); ok {
		f.Outcome, f.Got = Unjudged, r.Shown([]byte(why))
		return f
	}
	found, ok := errors.AsType[*Violation](err)
	if !ok {
		found = &Violation{Expected: "an answer", Got: err.Error()}
	}
	f.Outcome = Fail
	if advice || found.Mild {
		f.Outcome = Advice
	}
	f.Expected, f.Got = r.Shown([]byte(found.Expected)), r.Shown([]byte(found.Got))
	f.Request, f.Answer = r.Shown(found.Request), r.Shown(found.Answer)
	return f
}
