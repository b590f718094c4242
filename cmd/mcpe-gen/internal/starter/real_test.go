package starter

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/ingress"
)

// bodies are the lines of a packed file of testdata.
func bodies(t *testing.T, name string) []string {
	t.Helper()
	file, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// E4: what GitHub has really sent fits the event types that are made of its schemas, also where it does not fit
// those schemas.
func TestRealBodiesFit(t *testing.T) {
	t.Parallel()
	s, err := New("github", Names("github"))
	if err != nil {
		t.Fatal(err)
	}
	set := load(t, s)
	types := map[string]*validate.Schema{}
	for _, e := range set.Files[0].Events {
		if types[e.Name], err = validate.Compile(set.Published(e.Payload)); err != nil {
			t.Fatal(err)
		}
	}
	all, unfit := 0, 0
	for _, line := range bodies(t, "octokit/bodies.jsonl.gz") {
		var example struct {
			Event   string
			Payload json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &example); err != nil {
			t.Fatal(err)
		}
		if types[example.Event] == nil {
			t.Fatalf("no event type for %s", example.Event)
		}
		all++
		if err := types[example.Event].Validate(example.Payload); err != nil {
			unfit++
			t.Logf("%s: %v", example.Event, err)
		}
	}
	if all != 329 || unfit > 0 {
		t.Errorf("%d of %d bodies do not fit", unfit, all)
	}
}

// A counter counts what is emitted of an event type.
type counter int

func (c *counter) Emit(context.Context, json.RawMessage, ...events.EmitOption) error {
	*c++
	return nil
}

// E4: what the libraries of the other services carry becomes events of the types that are written by hand, by the same
// way as at a server: nothing is answered 202 for not fitting.
func TestLibrariesBodiesFit(t *testing.T) {
	t.Parallel()
	for service, c := range map[string]struct {
		receiver ingress.Service
		// want are the bodies, emitted those that an event type of ours is made of.
		want, emitted int
	}{
		"gitlab": {must(ingress.NewGitLab(ingress.GitLabOptions{Tokens: []string{"LONG-SECRET"}})), 32, 7},
		"slack":  {must(ingress.NewSlack(ingress.SlackOptions{Secrets: []string{"LONG-SECRET"}})), 16, 16},
		"stripe": {must(ingress.NewStripe(ingress.StripeOptions{Secrets: []string{"LONG-SECRET"}})), 8, 8},
	} {
		s, err := New(service, nil)
		if err != nil {
			t.Fatal(err)
		}
		set := load(t, s)
		var routes []ingress.Route
		emitted := new(counter)
		for _, e := range set.Files[0].Events {
			from := ingress.From{Provider: service, Event: e.From.Event, Action: e.From.Action}
			for _, f := range e.From.Fields {
				from.Fields = append(from.Fields, ingress.Field{Target: f.Target, Source: f.Source, Nullable: f.Nullable})
			}
			routes = append(routes, ingress.To(emitted, events.Info{Name: e.Name, InputSchema: set.Published(e.Input), PayloadSchema: set.Published(e.Payload)}, from))
		}
		var log bytes.Buffer
		handler, err := ingress.NewHandler(c.receiver, ingress.Options{RefuseUnfit: true, Logger: slog.New(slog.NewTextHandler(&log, nil))}, routes...)
		if err != nil {
			t.Fatal(err)
		}
		all := bodies(t, "libraries/"+service+".jsonl.gz")
		for _, body := range all {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			sign(r.Header, service, body)
			log.Reset()
			if w := answer(handler, r); w != http.StatusNoContent && w != http.StatusAccepted {
				t.Errorf("%s: %d for %.200s\n%s", service, w, body, &log)
			}
		}
		if len(all) != c.want || int(*emitted) != c.emitted {
			t.Errorf("%s: %d bodies and %d events, want %d and %d", service, len(all), *emitted, c.want, c.emitted)
		}
	}
}

// sign sets the headers that authenticate a body, by the rule of each service.
func sign(h http.Header, service, body string) {
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	sum := func(text string) string {
		mac := hmac.New(sha256.New, []byte("LONG-SECRET"))
		mac.Write([]byte(text))
		return hex.EncodeToString(mac.Sum(nil))
	}
	switch service {
	case "gitlab":
		h.Set("X-Gitlab-Token", "LONG-SECRET")
	case "slack":
		h.Set("X-Slack-Request-Timestamp", stamp)
		h.Set("X-Slack-Signature", "v0="+sum("v0:"+stamp+":"+body))
	case "stripe":
		h.Set("Stripe-Signature", "t="+stamp+",v1="+sum(stamp+"."+body))
	}
}

func must[S ingress.Service](s S, err error) ingress.Service {
	if err != nil {
		panic(err)
	}
	return s
}

func answer(h http.Handler, r *http.Request) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}
