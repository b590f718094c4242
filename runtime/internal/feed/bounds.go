package feed

import (
	"sync"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// Bounds limits the calls to the check of one event type. A value that is not positive means no limit.
type Bounds struct {
	// Calls is the maximum number of concurrent calls. CallsEach is the maximum number of concurrent calls per
	// principal. Of a principal with a running call, further calls start only while fewer than half of Calls run.
	Calls, CallsEach int
	// Checks is the maximum number of distinct arguments that the readers of one principal can use. All callers without
	// a principal share a limit that is anonymousFactor times as high.
	Checks int
}

// anonymousFactor multiplies the limit that all callers without a principal share.
const anonymousFactor = 16

// addReader counts a reader of the arguments for the principal until release is called. It returns an error if the
// principal would exceed its limit of distinct arguments, unless the subscription has already been accepted.
func (f *Feeds) addReader(principal string, a *topic.Arguments, accepted bool) (release func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.checkLimit(principal, a); err != nil && !accepted {
		return nil, err
	}
	used := f.used[principal]
	if used == nil {
		if f.used == nil {
			f.used = map[string]map[string]int{}
		}
		used = map[string]int{}
		f.used[principal] = used
	}
	used[a.Key]++
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if used[a.Key]--; used[a.Key] == 0 {
			delete(used, a.Key)
		}
		if len(used) == 0 {
			delete(f.used, principal)
		}
	}), nil
}

// checkLimit returns an error if a is new to the principal and the principal has reached its limit of distinct
// arguments. f.mu must be held.
func (f *Feeds) checkLimit(principal string, a *topic.Arguments) error {
	limit, used := f.checks, f.used[principal]
	if principal == "" {
		limit *= anonymousFactor
	}
	if limit <= 0 || used[a.Key] > 0 || len(used) < limit {
		return nil
	}
	return fault.Exhausted("checks", limit)
}
