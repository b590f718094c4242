package verdict

import (
	"errors"
	"fmt"
)

// A Violation reports that a requirement is violated.
type Violation struct {
	// Request is the message that was sent, or nil. Answer is the response to it, or nil.
	Request, Answer []byte
	Expected, Got   string
	// Mild reports whether the violation may be justified. It then becomes advice, regardless of the check.
	Mild bool
}

// Error returns the expected and the actual result.
func (v *Violation) Error() string { return "expected " + v.Expected + ", got " + v.Got }

// AsAdvice makes the violation mild and returns it.
func (v *Violation) AsAdvice() *Violation {
	v.Mild = true
	return v
}

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

// ErrRunEnded is the error of a check that the run did not start or complete.
const ErrRunEnded = UnjudgedError("the run ended before")

// Finding returns the finding for the result of a check, which is nil, a *Violation, a Skipped or an UnjudgedError. Any
// other error means that a response is missing.
func (r *Redactor) Finding(c Check, err error) Finding {
	f := Finding{Name: c.Name, ID: c.ID, Title: c.Title, Outcome: Pass}
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
	if c.Advice || found.Mild {
		f.Outcome = Advice
	}
	f.Expected, f.Got = r.Shown([]byte(found.Expected)), r.Shown([]byte(found.Got))
	f.Request, f.Answer = r.Shown(found.Request), r.Shown(found.Answer)
	return f
}
