// Package origin checks the Origin header, in which browsers name the page that sends a request.
package origin

import (
	"fmt"
	"net/http"
	"regexp"
)

// Any in the list of a rule stands for every origin.
const Any = "*"

// What browsers send, and would not send: an origin that none of them sends would never match.
var (
	sent        = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://[^/A-Z*?#@]+$`)
	defaultPort = regexp.MustCompile(`^(http://.*:80|https://.*:443)$`)
)

// A Rule lets pages of the server's own origin ask, and those of the origins that it names. Requests that no
// browser made have no Origin and pass.
//
// The zero value names none.
type Rule struct {
	protection http.CrossOriginProtection
	named      map[string]bool
}

// NewRule makes a rule that names origins, each as scheme://host[:port] or [Any].
func NewRule(origins ...string) (*Rule, error) {
	r := &Rule{named: map[string]bool{}}
	for _, o := range origins {
		if o != Any {
			if err := r.protection.AddTrustedOrigin(o); err != nil || !sent.MatchString(o) || defaultPort.MatchString(o) {
				return nil, fmt.Errorf("%q is not an origin as browsers send it: scheme://host or scheme://host:port, in lower case, "+
					"without a default port", o)
			}
		}
		r.named[o] = true
	}
	return r, nil
}

// Check refuses a request of a foreign page. Unlike [http.CrossOriginProtection] it judges every method: a GET
// opens streams here.
func (r *Rule) Check(req *http.Request) error {
	if r.named[Any] {
		return nil
	}
	return r.protection.Check(Unsafe(req))
}

// Unsafe is the request with an Origin as [http.CrossOriginProtection] judges it: as if it changed something.
func Unsafe(req *http.Request) *http.Request {
	if req.Header.Get("Origin") == "" || req.Method == http.MethodPost {
		return req
	}
	as := *req
	as.Method = http.MethodPost
	return &as
}

// Names reports whether the rule names any origin.
func (r *Rule) Names() bool { return len(r.named) > 0 }

// Named is the request's origin where the rule names it, else "".
func (r *Rule) Named(req *http.Request) string {
	o := req.Header.Get("Origin")
	if o != "" && (r.named[o] || r.named[Any]) {
		return o
	}
	return ""
}
