package operate

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// SRV-8: a verb that stores a request waits for its outcome, which the fields of the subscription tell.
func TestAwait(t *testing.T) {
	const gone = "gone"
	for name, c := range map[string]struct {
		line, kind string
		shown      []string // requests of the subscription, one look after another; the last one stays
		wait       time.Duration
		json       bool
		want       string // of the output or the error
		looks      int
	}{
		"performed": {"resume sub_1", "resume", []string{`[{"kind":"replay","number":9,"done":9,"failure":"of another kind"},{"kind":"resume","number":5,"done":4}]`,
			`[{"kind":"resume","number":5,"done":5}]`}, time.Minute, false, "done true kind resume number 5", 2},
		"in JSON":          {"resume sub_1", "resume", []string{`[{"kind":"resume","number":5,"done":5}]`}, time.Minute, true, `{"done":false,"kind":"resume","number":5}`, 1},
		"failed":           {"replay sub_1 c", "replay", []string{`[{"kind":"replay","number":5,"done":5,"failure":"it is \u001b malformed"}]`}, time.Minute, false, `request 5 to replay failed: it is \x1b malformed`, 1},
		"failed before it": {"replay sub_1 c", "replay", []string{`[{"kind":"replay","number":5,"done":4,"failure":"no"}]`, `[{"kind":"replay","number":5,"done":5}]`}, time.Minute, false, "done true", 2},
		"replaced":         {"endreplay sub_1", "replay", []string{`[{"kind":"replay","number":6,"done":4}]`}, time.Minute, false, "request 5 to replay was replaced by 6", 1},
		"replaced, and the other one is performed": {"replay sub_1 c", "replay", []string{`[{"kind":"replay","number":6,"done":6,"failure":"of the other one"}]`}, time.Minute, false, "request 5 to replay was replaced by 6", 1},
		"included":             {"retry sub_1 evt_1", "send", []string{`[{"kind":"send","number":6,"done":4}]`, `[{"kind":"send","number":7,"done":6}]`}, time.Minute, false, `done true kind send number 5 attempt {"eventId":"evt_1","status":204}`, 2},
		"an event that failed": {"retry sub_1 evt_1", "send", []string{`[{"kind":"send","number":6,"done":6,"failure":"event evt_1: it is no longer in the log"}]`}, time.Minute, false, "request 6 to send failed: event evt_1: it is no longer", 1},
		"no attempt":           {"retry sub_1 evt_2", "send", []string{`[{"kind":"send","number":5,"done":5}]`}, time.Minute, false, "done true kind send number 5", 1},
		"ended":                {"end sub_1", "end", []string{`[{"kind":"end","number":5,"done":0}]`, gone}, time.Minute, false, "done true", 2},
		"ended and begun anew": {"end sub_1", "end", []string{`[]`}, time.Minute, false, "done true", 1},
		"ended meanwhile":      {"resume sub_1", "resume", []string{gone}, time.Minute, false, "404: it is not there", 1},
		"of another one":       {"resume sub_1", "resume", []string{`[{"kind":"resume","number":1,"done":1}]`}, time.Minute, false, "the subscription has ended meanwhile", 1},
		"too long":             {"resume sub_1", "resume", []string{`[{"kind":"resume","number":5,"done":4}]`}, 50 * time.Millisecond, false, "request 5 to resume is stored, but was not performed within 50ms: see show", 0},
		"not at all":           {"resume sub_1", "resume", nil, 0, false, "done false kind resume number 5", 0},
	} {
		t.Run(name, func(t *testing.T) {
			looks := 0
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodPost:
					w.WriteHeader(http.StatusAccepted)
					io.WriteString(w, `{"done":false,"kind":"`+c.kind+`","number":5}`)
				case r.URL.Path == "/api/subscriptions/sub_1/attempts":
					io.WriteString(w, `{"attempts":[{"eventId":"evt_1","status":204},{"eventId":"evt_1","status":500}]}`)
				default:
					text := c.shown[min(looks, len(c.shown)-1)]
					if looks++; text == gone {
						w.WriteHeader(http.StatusNotFound)
						io.WriteString(w, `{"code":"not_found","detail":"it is not there"}`)
						return
					}
					io.WriteString(w, `{"id":"sub_1","requests":`+text+`}`)
				}
			}))
			defer s.Close()
			words := strings.Fields(c.line)
			var out bytes.Buffer
			err := Run(t.Context(), Options{URL: s.URL, Verb: words[0], Args: words[1:], Wait: c.wait, JSON: c.json, Stdout: &out})
			got := out.String()
			if err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(squeeze(got), c.want) || c.looks > 0 && looks != c.looks || slices.Contains(c.shown, gone) && looks == 0 {
				t.Errorf("%s\nwant\n%s\nafter %d looks", got, c.want, looks)
			}
		})
	}
}
