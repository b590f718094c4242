package oracle

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/ingress"
)

// A sink keeps what is emitted: the event in its JSON format.
type sink struct {
	got     map[string]any
	options events.EmitOptions
}

func (s *sink) Emit(_ context.Context, p map[string]any, o ...events.EmitOption) error {
	s.got, s.options = p, events.EmitOptions{}
	for _, set := range o {
		set(&s.options)
	}
	return nil
}

// What the CloudEvents SDK sends in either mode arrives as the event that it is: attributes, extensions, data, time.
func TestCloudEvents(t *testing.T) {
	service, err := ingress.NewCloudEvents(ingress.CloudEventsOptions{Tokens: []string{secret}})
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{}
	info := events.Info{Name: "any", InputSchema: json.RawMessage(`{"type":"object"}`), PayloadSchema: json.RawMessage(`{"type":"object"}`)}
	handler, err := ingress.NewHandler(service, ingress.Options{}, ingress.To(s, info, ingress.From{Provider: ingress.ProviderCloudEvents}))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	// The SDK (2.16) writes attributes into headers as they are, where the specification has them encoded: a code of
	// percents, which we decode, is the one thing that does not come through.
	texts := []string{"plain", "a b", `quo"ted\`, "100%", "über €", "日本語 🎉", "a,b;c=d", "%", "tab\tbed", "x|y"}
	text := func() string { return texts[r.IntN(len(texts))] }
	data := []any{map[string]any{"number": 7.0, "text": "é"}, []any{1.0, "two"}, "text", 3.5, true, nil}
	for i := range 2000 {
		e := event.New()
		e.SetID(fmt.Sprint(i, text()))
		e.SetSource("/source/of?things=" + []string{"a", "x%", "b#c"}[r.IntN(3)])
		e.SetType(text())
		e.SetTime(time.Unix(1700000000+int64(i), int64(r.IntN(1e9))).UTC())
		if r.IntN(2) == 0 {
			e.SetSubject(text())
		}
		e.SetExtension("region", text())
		e.SetExtension("tenant2", text())
		if n := r.IntN(len(data) + 1); n < len(data) {
			if err := e.SetData(event.ApplicationJSON, data[n]); err != nil {
				t.Fatal(err)
			}
		}
		want := map[string]any{}
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatal(err)
		}
		for mode, with := range map[string]func(context.Context) context.Context{"structured": binding.WithForceStructured, "binary": binding.WithForceBinary} {
			q := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
			if err := cehttp.WriteRequest(with(t.Context()), binding.ToMessage(&e), q); err != nil {
				t.Fatal(err)
			}
			if e.Data() == nil && mode == "binary" {
				q.ContentLength = 0 // as a client sends it
			}
			q.Header.Set("Authorization", "Bearer "+secret)
			w := httptest.NewRecorder()
			s.got = nil
			handler.ServeHTTP(w, q)
			if w.Code != http.StatusNoContent {
				t.Fatalf("%s: %d for %s\n%v", mode, w.Code, raw, q.Header)
			}
			if !maps.EqualFunc(s.got, want, func(a, b any) bool { return reflect.DeepEqual(a, b) }) {
				t.Fatalf("%s: got %v, want %s", mode, s.got, raw)
			}
			if !s.options.Timestamp.Equal(e.Time()) {
				t.Errorf("%s: at %v, want %v", mode, s.options.Timestamp, e.Time())
			}
		}
	}
}

// What the SDK refuses to read as an event is refused here, and what it reads is read, whatever the headers are.
func TestCloudEventsAgree(t *testing.T) {
	service, err := ingress.NewCloudEvents(ingress.CloudEventsOptions{Tokens: []string{secret}})
	if err != nil {
		t.Fatal(err)
	}
	good := header("Ce-Specversion", "1.0", "Ce-Id", "1", "Ce-Source", "/a", "Ce-Type", "t", "Content-Type", "application/json", "Authorization", "Bearer "+secret)
	for _, c := range [][]string{{}, {"Ce-Id", ""}, {"Ce-Source", ""}, {"Ce-Type", ""}, {"Ce-Specversion", "2.0"}, {"Ce-Specversion", ""},
		{"Ce-Time", "2024-01-02T03:04:05Z"}, {"Ce-Subject", "a%20b"}, {"Ce-Traceparent", "00-1"}} {
		h := good.Clone()
		for i := 0; i < len(c); i += 2 {
			h.Set(c[i], c[i+1])
		}
		theirs := func() error {
			e, err := binding.ToEvent(t.Context(), cehttp.NewMessage(h, http.NoBody))
			if err != nil {
				return err
			}
			return e.Validate()
		}()
		_, ours := service.Receive(request(h, "{}"))
		if (theirs == nil) != (ours == nil) {
			t.Errorf("%q: ours %v, theirs %v", c, ours, theirs)
		}
	}
}
