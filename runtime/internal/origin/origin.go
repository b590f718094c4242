// Package origin validates the Origin header, which browsers use to send the origin of the requesting page.
package origin

import (
	"fmt"
	"net/http"
	"regexp"
)

// Any, in the list of a rule, allows every origin.
const Any = "*"

// Patterns for origins in the form that browsers send. An origin in another form would never match.
var (
	sent        = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://[^/A-Z*?#@]+$`)
	defaultPort = regexp.MustCompile(`^(http://.*:80|https://.*:443)$`)
)

// A Rule allows requests from pages of the server's own origin and of the named origins. Requests not sent by a browser
// have no Origin header and are allowed.
//
// The zero value allows only the server's own origin.
type Rule struct {
	protection http.CrossOriginProtection
	named      map[string]bool
}

// NewRule returns a rule that allows the given origins. Each origin has the form scheme://host[:port] or is [Any].
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

// Check returns an error for a request from a page of another origin. Unlike [http.CrossOriginProtection], it checks
// all methods, because a GET request opens a stream.
func (r *Rule) Check(req *http.Request) error {
	if n := len(req.Header["Origin"]); n > 1 { // browsers send one; a proxy may have checked another than the first
		return fmt.Errorf("the request has %d Origin headers, and must have one", n)
	}
	if r.named[Any] {
		return nil
	}
	return r.protection.Check(Unsafe(req))
}

// Unsafe returns the request in a form that [http.CrossOriginProtection] checks. It changes the method to POST if the
// request has an Origin header.
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

// Named returns the request's origin if the rule names it, or "" otherwise.
func (r *Rule) Named(req *http.Request) string {
	o := req.Header.Get("Origin")
	if o != "" && (r.named[o] || r.named[Any]) {
		return o
	}
	return ""
}
