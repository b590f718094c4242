package verdict

import (
	"errors"
	"fmt"
)

// A Violation is a broken requirement.
type Violation struct {
	// Request is the message that was sent, and Answer is its answer; nil for none.
	Request, Answer []byte
	Expected, Got   string
	// Mild reports that there may be reasons for the violation: it becomes advice, whatever the check is.
	Mild bool
}

// Error returns the expectation and the answer.
func (v *Violation) Error() string { return "expected " + v.Expected + ", got " + v.Got }

// A Skipped is the reason why a check does not apply.
type Skipped string

// Error returns the reason.
func (s Skipped) Error() string { return string(s) }

// Skipf returns a Skipped with a formatted reason.
func Skipf(format string, args ...any) error { return Skipped(fmt.Sprintf(format, args...)) }

// An UnjudgedError is the reason why the run could not finish a check that applies.
type UnjudgedError string

// Error returns the reason.
func (e UnjudgedError) Error() string { return string(e) }

// Unjudgedf returns an UnjudgedError with a formatted reason.
func Unjudgedf(format string, args ...any) error { return UnjudgedError(fmt.Sprintf(format, args...)) }

// ErrRunEnded is the error of a check that the run did not start or did not complete.
const ErrRunEnded = UnjudgedError("the run ended before")

// A UsageError reports a request that cannot be fulfilled, such as the name of an unknown event.
type UsageError struct{ Message string }

// Error returns the message.
func (e *UsageError) Error() string { return e.Message }

// Usagef returns a UsageError with a formatted message.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// Finding returns the finding for the error of a check: nil, a *Violation, a Skipped or an UnjudgedError. Any other
// error stands for a missing answer. advice marks a check that no specification requires.
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
