package validate

import (
	"errors"
	"net/netip"
	"regexp"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// textFormat returns a format that checks strings. Values of other types are always valid.
func textFormat(name string, fault error, valid func(string) bool) *jsonschema.Format {
	return &jsonschema.Format{Name: name, Validate: func(v any) error {
		if text, ok := v.(string); ok && !valid(text) {
			return fault
		}
		return nil
	}}
}

// The formats of RFC 3986, appendix A, and RFC 3987. An IRI allows more letters than a URI.
var (
	uri          = textFormat("uri", errors.New("is not a URI of RFC 3986"), newReferenceCheck("", false))
	uriReference = textFormat("uri-reference", errors.New("is not a URI reference of RFC 3986"), newReferenceCheck("", true))
	iri          = textFormat("iri", errors.New("is not an IRI of RFC 3987"), newReferenceCheck(beyondASCII, false))
	iriReference = textFormat("iri-reference", errors.New("is not an IRI reference of RFC 3987"), newReferenceCheck(beyondASCII, true))
)

const (
	beyondASCII = `\x{A0}-\x{D7FF}\x{F900}-\x{FDCF}\x{FDF0}-\x{FFEF}\x{10000}-\x{EFFFD}`
	private     = `\x{E000}-\x{F8FF}\x{F0000}-\x{FFFFD}\x{100000}-\x{10FFFD}`
)

// newReferenceCheck returns a check for URIs and, if relative is set, for relative references. more is the set of
// additional unreserved characters.
func newReferenceCheck(more string, relative bool) func(string) bool {
	form := sync.OnceValue(func() *regexp.Regexp { return referenceForm(more, relative) })
	return func(text string) bool {
		found := form().FindStringSubmatch(text)
		if found == nil {
			return false
		}
		for _, literal := range found[1:] { // the address in brackets, in either branch
			if literal != "" && literal[0] != 'v' && literal[0] != 'V' && !isIPv6(literal) {
				return false
			}
		}
		return true
	}
}

func referenceForm(more string, relative bool) *regexp.Regexp {
	const (
		escaped = `|%[0-9A-Fa-f]{2}`
		future  = `[vV][0-9A-Fa-f]+\.[A-Za-z0-9._~!$&'()*+,;=:-]+`
	)
	plain := `A-Za-z0-9._~!$&'()*+,;=` + more
	query := plain
	if more != "" {
		query += private
	}
	char := `(?:[` + plain + `:@-]` + escaped + `)`
	authority := `//(?:(?:[` + plain + `:-]` + escaped + `)*@)?` +
		`(?:\[(` + future + `|[0-9A-Fa-f:.]+)\]|(?:[` + plain + `-]` + escaped + `)*)(?::[0-9]*)?(?:/` + char + `*)*`
	rooted := `/(?:` + char + `+(?:/` + char + `*)*)?`
	tail := `(?:\?(?:[` + query + `:@/?-]` + escaped + `)*)?(?:#(?:[` + plain + `:@/?-]` + escaped + `)*)?`
	form := `[A-Za-z][A-Za-z0-9+.-]*:(?:` + authority + `|` + rooted + `|` + char + `+(?:/` + char + `*)*|)`
	if relative {
		form += `|` + authority + `|` + rooted + `|(?:[` + plain + `@-]` + escaped + `)+(?:/` + char + `*)*|`
	}
	return regexp.MustCompile(`^(?:` + form + `)` + tail + `$`)
}

func isIPv6(text string) bool {
	a, err := netip.ParseAddr(text)
	return err == nil && a.Is6() && a.Zone() == ""
}

// ipv4Format is the format for addresses in the dotted decimal notation of RFC 2673, section 3.2, without leading
// zeros.
var ipv4Format = textFormat("ipv4", errors.New("is not an IPv4 address"), func(text string) bool {
	a, err := netip.ParseAddr(text)
	return err == nil && a.Is4() && strings.Trim(text, "0123456789.") == ""
})

// durationFormat is the format for durations of RFC 3339, appendix A. It cannot skip a unit, so P1Y1D is invalid.
var durationFormat = textFormat("duration", errors.New("is not a duration of RFC 3339"), durationForm.MatchString)

var durationForm = func() *regexp.Regexp {
	const time = `T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)`
	const date = `(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)`
	return regexp.MustCompile(`^P(?:[0-9]+W|` + date + `(?:` + time + `)?|` + time + `)$`)
}()
