package ingress_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/ingress"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

func newShop() *shop { return &shop{url: "https://hooks.example.com/shop", secret: []byte(secret)} }

func shopHeader(s *shop, body string) map[string]string {
	return map[string]string{"X-Shop-Signature": s.signature(body)}
}

func fromShop() ingress.From {
	return ingress.From{Provider: "custom", Event: "made", Fields: []ingress.Field{{Target: "/repo", Source: "/r"}, {Target: "/number", Source: "/n"}}}
}

func gzipped(t testing.TB, content io.Reader) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.Copy(z, content); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A request with several events: each is emitted once (OCC-5), and the answer is that of the one that fared worst.
func TestSeveralEvents(t *testing.T) {
	for name, c := range map[string]struct {
		body     string
		status   int
		received int
	}{
		"all":                             {`[{"id":"1","type":"made","r":"a","n":1},{"id":"2","type":"made","r":"b","n":2},{"id":"1","type":"made","r":"a","n":1}]`, 204, 2},
		"one is unmapped":                 {`[{"id":"1","type":"sold"},{"id":"2","type":"made","r":"b","n":2}]`, 204, 1},
		"one is unfit":                    {`[{"id":"1","type":"made"},{"id":"2","type":"made","r":"b","n":2}]`, 422, 1},
		"one is no object, after another": {`[{"id":"2","type":"made","r":"b","n":2},null]`, 204, 1},
		"none":                            {`[]`, 202, 0},
		"not an array":                    {`{}`, 400, 0},
	} {
		s := newShop()
		f := newFixture(t, s, ingress.Options{RefuseUnfit: true}, fromShop())
		if status := f.post(shopHeader(s, c.body), c.body); status != c.status {
			t.Errorf("%s: status %d, want %d: %s", name, status, c.status, &f.log)
		}
		if got := f.received(); len(got) != c.received {
			t.Errorf("%s: received %+v", name, got)
		}
	}
	// What the store did not take comes again; what it took is the same occurrence.
	s, kept := newShop(), &failing{Store: memory.New()}
	f := newFixture(t, s, ingress.Options{}, fromShop(), kept)
	body := `[{"id":"1","type":"made","r":"a","n":1},{"id":"2","type":"made","r":"b","n":2}]`
	for _, want := range []int{503, 204} {
		kept.fail = want == 503
		if status := f.post(shopHeader(s, body), body); status != want {
			t.Errorf("status %d, want %d", status, want)
		}
	}
	f.wants(2)
}

// A challenge by GET is answered with the service's headers, next to those that keep a browser from reading it as a
// page.
func TestChallengeByGET(t *testing.T) {
	f := newFixture(t, newShop(), ingress.Options{}, fromShop())
	r := request(nil, nil)
	r.Method, r.URL.RawQuery = http.MethodGet, "challenge=%3Cb%3E"
	w := f.do(r)
	if w.Code != 200 || w.Body.String() != "<b>" || w.Header().Get("Content-Type") != "text/plain" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
	}
	r.URL.RawQuery = ""
	if w := f.do(r); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != http.MethodPost {
		t.Errorf("without a challenge: %d %v", w.Code, w.Header())
	}
}

// A body of gzip is verified as it comes and read unpacked, within the bound of bodies (CAP-5).
func TestGzip(t *testing.T) {
	for _, encoding := range []string{"gzip", "GZIP", "x-gzip"} {
		f := newFixture(t, gitHub(t), ingress.Options{}, fromIssues())
		body := gzipped(t, strings.NewReader(opened))
		if status := f.post(headersOf(gitHubHeader("d-1", body), "Content-Encoding", encoding), body); status != http.StatusNoContent {
			t.Errorf("%s: status %d: %s", encoding, status, &f.log)
		}
		f.wants(1)
	}
	bomb := gzipped(t, io.LimitReader(&endless{}, 4<<20))
	cut := gzipped(t, strings.NewReader(opened))
	cut = cut[:len(cut)-9]
	for name, c := range map[string]struct {
		body, encoding string
		want           int
	}{
		"unpacks to 4 MiB": {bomb, "gzip", 413}, "not gzip": {opened, "gzip", 400}, "cut off": {cut, "gzip", 400},
		"packed twice": {bomb, "gzip, gzip", 415}, "another": {opened, "br", 415}, "named as it is": {opened, "identity", 204},
	} {
		f := newFixture(t, gitHub(t), ingress.Options{MaxBody: 1 << 20}, fromIssues())
		if status := f.post(headersOf(gitHubHeader("d-1", c.body), "Content-Encoding", c.encoding), c.body); status != c.want {
			t.Errorf("%s: status %d, want %d: %s", name, status, c.want, &f.log)
		}
	}
}

// Half of a cut emoji, as JSON.stringify of JavaScript writes it, becomes U+FFFD; the signature is over the bytes as
// they came.
func TestLoneSurrogates(t *testing.T) {
	for _, fields := range [][]ingress.Field{nil, {{Target: "/repo", Source: "/repo"}, {Target: "/number", Source: "/number"}, {Target: "/note", Source: "/note"}}} {
		f := newFixture(t, gitHub(t), ingress.Options{}, ingress.From{Provider: "github", Fields: fields})
		body := `{"action":"\ude00","repo":"a","number":1,"note":"cut \ud83d"}`
		if status := f.post(gitHubHeader("d-1", body), body); status != http.StatusNoContent {
			t.Errorf("status %d: %s", status, &f.log)
		}
		var payload issue
		if got := f.received(); len(got) != 1 || json.Unmarshal(got[0].Data, &payload) != nil || payload.Note == nil || *payload.Note != "cut \ufffd" {
			t.Errorf("received %+v", got)
		}
	}
}

// The largest body is the service's unless an option says otherwise: GitHub sends up to 25 MB and does not repeat.
func TestMaxBodyOfTheService(t *testing.T) {
	hmac, err := ingress.NewHMAC(ingress.HMACOptions{Secrets: []string{secret}, Header: "X-Hub-Signature-256", Prefix: "sha256="})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		service ingress.Service
		o       ingress.Options
		size    int
		want    int
	}{
		"GitHub": {gitHub(t), ingress.Options{}, 24 << 20, 204}, "GitHub and more": {gitHub(t), ingress.Options{}, 26 << 20, 413},
		"GitHub by option": {gitHub(t), ingress.Options{MaxBody: 1 << 20}, 2 << 20, 413}, "no limit": {hmac, ingress.Options{}, 2 << 20, 413},
	} {
		from := fromIssues()
		if c.service == hmac {
			from = ingress.From{Provider: "hmac", ID: "/id"}
		}
		f := newFixture(t, c.service, c.o, from)
		body := strings.Replace(opened, `"action"`, `"filler":"`+strings.Repeat("x", c.size)+`","action"`, 1)
		if status := f.post(gitHubHeader("d-1", body), body); status != c.want {
			t.Errorf("%s: status %d, want %d", name, status, c.want)
		}
	}
}

// A brief service returns what the test says.
type brief struct {
	result ingress.Result
	err    error
}

func (*brief) Provider() string                                { return "custom" }
func (b *brief) Receive(*http.Request) (ingress.Result, error) { return b.result, b.err }

// Errors of a service are answered by their kind, and a status that HTTP does not have is a fault of the service, not a
// panic.
func TestAnswersOfAService(t *testing.T) {
	for _, c := range []struct {
		service brief
		want    int
	}{
		{brief{err: errors.New("no")}, 400}, {brief{err: ingress.ErrStale}, 401}, {brief{err: &ingress.Refusal{Status: 429, Reason: "later"}}, 429},
		{brief{err: &ingress.Refusal{}}, 500}, {brief{err: &ingress.Refusal{Status: 200}}, 500}, {brief{err: &http.MaxBytesError{Limit: 1}}, 413},
		{brief{}, 202}, {brief{result: ingress.Result{Answer: &ingress.Answer{}}}, 200}, {brief{result: ingress.Result{Answer: &ingress.Answer{Status: 7}}}, 500},
		{brief{result: ingress.Result{Deliveries: []ingress.Delivery{{ID: "1", Event: "made", Body: []byte("no")}}}}, 400},
	} {
		f := newFixture(t, &c.service, ingress.Options{}, fromShop())
		if w := f.do(request(nil, nil)); w.Code != c.want || !isAdvice(w) {
			t.Errorf("%+v: %d %q, want %d", c.service, w.Code, w.Body, c.want)
		}
	}
}
