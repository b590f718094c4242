package ingress_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/ingress"
)

func cloudEvents(t *testing.T, o ingress.CloudEventsOptions) *ingress.CloudEvents {
	t.Helper()
	o.Tokens = []string{secret}
	s, err := ingress.NewCloudEvents(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// headersOf are those of a request with the token, and more by pairs; a value of "-" takes one away.
func headersOf(base map[string]string, pairs ...string) map[string]string {
	h := maps.Clone(base)
	for i := 0; i < len(pairs); i += 2 {
		h[pairs[i]] = pairs[i+1]
		if pairs[i+1] == "-" {
			delete(h, pairs[i])
		}
	}
	return h
}

var (
	structured = map[string]string{"Authorization": "Bearer " + secret, "Content-Type": "application/cloudevents+json; charset=utf-8"}
	binary     = map[string]string{"Authorization": "Bearer " + secret, "Ce-Specversion": "1.0", "Ce-Id": "n/1", "Ce-Source": "/a/b", "Ce-Type": "issue.opened",
		"Ce-Time": "2023-11-14T22:13:20Z", "Ce-Repo": `a%20%e2%82%ac/b`}
	openedFields = []ingress.Field{{Target: "/repo", Source: "/repo"}, {Target: "/number", Source: "/data/number"}}
)

const event = `{"specversion":"1.0","id":"n/1","source":"/a/b","type":"issue.opened","time":"2023-11-14T22:13:20Z","repo":"a €/b","data":{"number":7}}`

// An event is the same occurrence in both modes, with source and id as its id and its own time (OCC-5).
func TestCloudEventsModes(t *testing.T) {
	for mode, send := range map[string]func(f *fixture) int{
		"structured": func(f *fixture) int { return f.post(structured, event) },
		"binary":     func(f *fixture) int { return f.post(binary, `{"number":7}`) },
		"quoted":     func(f *fixture) int { return f.post(headersOf(binary, "Ce-Repo", `"a %E2%82%AC/b"`), `{"number":7}`) },
		"batch": func(f *fixture) int {
			return f.post(headersOf(structured, "Content-Type", "application/cloudevents-batch+json"), "["+event+"]")
		},
		"suffix": func(f *fixture) int {
			return f.post(headersOf(binary, "Content-Type", "application/issue+json"), "\n {\"number\":7}")
		},
	} {
		f := newFixture(t, cloudEvents(t, ingress.CloudEventsOptions{}), ingress.Options{},
			ingress.From{Provider: "cloudevents", Event: "issue.opened", Fields: openedFields})
		for range 2 {
			if code := send(f); code != http.StatusNoContent {
				t.Fatalf("%s: %d\n%s", mode, code, &f.log)
			}
		}
		got := f.received()
		if len(got) != 1 || got[0].EventID != "/a/b|n/1" || !strings.Contains(string(got[0].Data), `"number":7`) ||
			!strings.Contains(string(got[0].Data), `"repo":"a €/b"`) {
			t.Fatalf("%s: %v", mode, got)
		}
		if at, err := time.Parse(time.RFC3339Nano, got[0].Timestamp); err != nil || at.Unix() != 1700000000 {
			t.Errorf("%s: at %s", mode, got[0].Timestamp)
		}
		// Another source's event of that id is another event.
		if code := f.post(structured, strings.Replace(event, "/a/b", "/a/c", 1)); code != http.StatusNoContent {
			t.Errorf("%s: %d", mode, code)
		}
		f.wants(2)
	}
}

func TestCloudEventsAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		header map[string]string
		body   string
		want   int
		// unfit says that the event is read: the payload wants a number, which none has.
		unfit bool
	}{
		"no data, no type of it": {headersOf(binary, "Content-Type", ""), "", 202, true},
		"a number as data":       {binary, `7`, 202, true},
		"a string as data":       {binary, `"x"`, 202, true},
		"data in base64":         {structured, strings.Replace(event, `"data":{"number":7}`, `"data_base64":"AAE="`, 1), 202, true},
		"an attribute of null":   {structured, strings.Replace(event, `"2023-11-14T22:13:20Z"`, "null", 1), 202, true},
		"another type":           {headersOf(binary, "Ce-Type", "issue.closed"), `{}`, 202, false},
		"no token":               {headersOf(binary, "Authorization", "-"), `{}`, 401, false},
		"another token":          {headersOf(binary, "Authorization", "Bearer 12345678"), `{}`, 401, false},
		"another scheme":         {headersOf(binary, "Authorization", "Basic "+secret), `{}`, 401, false},
		"data that breaks out":   {binary, `1,"source":"/other"`, 400, false},
		"no JSON":                {binary, `{`, 400, false},
		"two values":             {binary, `1 2`, 400, false},
		"text":                   {headersOf(binary, "Content-Type", "text/plain"), `x`, 415, false},
		"a batch":                {headersOf(structured, "Content-Type", "application/cloudevents-batch+json"), "[" + event + "," + event + "]", 202, true},
		"an empty batch":         {headersOf(structured, "Content-Type", "application/cloudevents-batch+json"), "[]", 202, false},
		"a batch of one wrong":   {headersOf(structured, "Content-Type", "application/cloudevents-batch+json"), "[" + event + ",{}]", 400, false},
		"a batch that is one":    {headersOf(structured, "Content-Type", "application/cloudevents-batch+json"), event, 400, false},
		"avro":                   {headersOf(structured, "Content-Type", "application/cloudevents+avro"), event, 415, false},
		"data without a type":    {headersOf(binary, "Content-Type", ""), `{}`, 415, false},
		"no id":                  {headersOf(binary, "Ce-Id", "-"), `{}`, 400, false},
		"no source":              {headersOf(binary, "Ce-Source", "-"), `{}`, 400, false},
		"no type":                {headersOf(binary, "Ce-Type", "-"), `{}`, 400, false},
		"version 0.3":            {headersOf(binary, "Ce-Specversion", "0.3"), `{}`, 400, false},
		"no version":             {structured, strings.Replace(event, `"specversion":"1.0",`, "", 1), 400, false},
		"bad percents":           {headersOf(binary, "Ce-Repo", "%e2%8"), `{}`, 202, true},
		"percents of no text":    {headersOf(binary, "Ce-Repo", "%ff"), `{}`, 202, true},
		"no UTF-8":               {headersOf(binary, "Ce-Repo", "\xff"), `{}`, 400, false},
		"a name that is none":    {headersOf(binary, "Ce-My-Name", "x"), `{}`, 400, false},
		"data in a header":       {headersOf(binary, "Ce-Data", "x"), `{}`, 400, false},
		"a long attribute":       {headersOf(binary, "Ce-Repo", strings.Repeat("x", 5000)), `{}`, 400, false},
		"an id of a number":      {structured, strings.Replace(event, `"n/1"`, "1", 1), 400, false},
		"a member twice":         {structured, strings.Replace(event, `"repo"`, `"id"`, 1), 400, false},
		"nested deep":            {binary, strings.Repeat("[", 600) + strings.Repeat("]", 600), 400, false},
	} {
		f := newFixture(t, cloudEvents(t, ingress.CloudEventsOptions{}), ingress.Options{}, ingress.From{Provider: "cloudevents", Event: "issue.opened",
			Fields: []ingress.Field{{Target: "/repo", Source: "/source"}, {Target: "/number", Source: "/number"}}})
		code := f.post(c.header, c.body)
		if reached := strings.Contains(f.log.String(), "does not match"); code != c.want || reached != c.unfit {
			t.Errorf("%s: %d, want %d; reached the event type: %v\n%s", name, code, c.want, reached, &f.log)
		}
	}
}

// Values of headers are decoded once, and what nobody encoded stays. Source and id stay apart in the id.
func TestCloudEventsValues(t *testing.T) {
	for sent, want := range map[string]string{`a%20b`: "a b", `100%`: "100%", `%ff`: "%ff", `%2525`: "%25", `"q \" \\"`: `q " \`, `"`: `"`, `a"b`: `a"b`} {
		d, err := read(cloudEvents(t, ingress.CloudEventsOptions{}), headerOf(headersOf(binary, "Ce-Type", sent)), nil)
		if err != nil || d.Event != want {
			t.Errorf("%s: %q %v, want %q", sent, d.Event, err, want)
		}
	}
	ids := map[string]bool{}
	for _, pair := range [][2]string{{"/a|b", "c"}, {"/a", "b|c"}, {"/a", "b"}} {
		d, err := read(cloudEvents(t, ingress.CloudEventsOptions{}), headerOf(headersOf(binary, "Ce-Source", pair[0], "Ce-Id", pair[1])), nil)
		if err != nil || ids[d.ID] {
			t.Errorf("%q: %q %v", pair, d.ID, err)
		}
		ids[d.ID] = true
	}
}

// A header with an attribute that is there twice names none.
func TestCloudEventsHeaderTwice(t *testing.T) {
	h := headerOf(binary)
	h.Add("Ce-Id", "n/2")
	if d, err := read(cloudEvents(t, ingress.CloudEventsOptions{}), h, []byte("{}")); err == nil {
		t.Errorf("%+v", d)
	}
}

// Senders that ask first are told by their origin, without a token; others are answered as if nobody could ask.
func TestCloudEventsHandshake(t *testing.T) {
	for _, c := range []struct {
		allowed      []string
		origin, rate string
		want         int
	}{
		{[]string{"grid.example.com"}, "grid.example.com", "120", 200}, {[]string{"*"}, "any.example.com", "", 200},
		{[]string{"grid.example.com"}, "other.example.com", "", 405}, {nil, "grid.example.com", "", 405}, {[]string{"*"}, "", "", 405},
	} {
		f := newFixture(t, cloudEvents(t, ingress.CloudEventsOptions{Origins: c.allowed}), ingress.Options{}, ingress.From{Provider: "cloudevents"})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodOptions, "/hook", nil)
		if c.origin != "" {
			r.Header.Set("WebHook-Request-Origin", c.origin)
		}
		if c.rate != "" {
			r.Header.Set("WebHook-Request-Rate", c.rate)
		}
		w := httptest.NewRecorder()
		f.ServeHTTP(w, r)
		want := ""
		if c.want == 200 {
			want = c.origin
		}
		if w.Code != c.want || w.Header().Get("WebHook-Allowed-Origin") != want || (w.Header().Get("WebHook-Allowed-Rate") != "") != (c.rate != "" && want != "") {
			t.Errorf("%+v: %d %v", c, w.Code, w.Header())
		}
	}
}
