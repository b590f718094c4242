package webhook

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// FuzzReceiver holds that a receiver hands over only what is signed, says 2xx only to what it
// handed over or to a challenge, and never fails on anything else (CLI-5).
func FuzzReceiver(f *testing.F) {
	f.Add("POST", "", "application/json", "evt_1", "", "", []byte(`{"eventId":"evt_1","name":"n","timestamp":"t","data":{}}`), true)
	f.Add("POST", "", "application/json", "msg_1", "", "", []byte(`{"type":"verification","challenge":"a"}`), true)
	f.Add("GET", "x", "text/plain", "", "1", "v1,x", []byte(`{}`), false)
	r, err := NewReceiver(ReceiverOptions{MaxBody: 4096})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, method, path, contentType, id, stamp, signature string, body []byte, genuine bool) {
		e, err := r.Open(EndpointOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		s := &sink{}
		e.Activate("sub_1", s.take)
		req := httptest.NewRequest(http.MethodPost, "https://receiver.test/", strings.NewReader(string(body)))
		req.Method, req.URL.Path = method, e.Path()+path
		req.Header.Set("Content-Type", contentType)
		req.Header.Set(wire.HeaderWebhookID, id)
		req.Header.Set(wire.HeaderWebhookTimestamp, stamp)
		req.Header.Set(wire.HeaderWebhookSignature, signature)
		if genuine {
			if err := (Signer{Ring: NewRing(e.Secret())}).Sign(req.Header, Message{ID: id, Body: body}, time.Now()); err != nil {
				genuine = false
			}
			req.Header.Set("Content-Type", contentType)
		}
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		switch w.Code {
		case http.StatusNoContent:
			if s.count() != 1 || !genuine || path != "" || method != http.MethodPost || string(s.taken[0].Body) != string(body) {
				t.Fatalf("%d with %d messages, genuine %v", w.Code, s.count(), genuine)
			}
		case http.StatusOK:
			if s.count() != 0 || !genuine || !strings.HasPrefix(w.Body.String(), `{"challenge":"`) {
				t.Fatalf("%d %s with %d messages, genuine %v", w.Code, w.Body, s.count(), genuine)
			}
		case 400, 401, 404, 405, 413, 415, 503:
			if s.count() != 0 || w.Body.Len() != 0 {
				t.Fatalf("%d with %d messages and %q", w.Code, s.count(), w.Body)
			}
		default:
			t.Fatalf("%d", w.Code)
		}
	})
}
