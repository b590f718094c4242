package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// TestVER2Challenge looks at the handshake: one signed POST like any delivery, with a nonce of its
// own each time (VER-2).
func TestVER2Challenge(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		a := w.subscribe("alice", params(plain, secretA, ""))
		w.subscribe("bob", params(plain, secretA, ""))
		got := w.r.challenges()
		if len(got) != 2 || got[0].body.Challenge == got[1].body.Challenge || len(got[0].body.Challenge) < 22 {
			t.Fatalf("%d challenges", len(got))
		}
		d := got[0]
		if want := fmt.Sprintf(`{"type":"verification","challenge":%q}`, d.body.Challenge); string(d.raw) != want {
			t.Errorf("body %s", d.raw)
		}
		if !d.signedBy(secretA) || !strings.HasPrefix(d.header.Get("webhook-id"), "msg_verification_") ||
			d.header.Get("X-MCP-Subscription-Id") != a.ID || d.header.Get("Content-Type") != "application/json" {
			t.Errorf("headers %v", d.header)
		}
	})
}

// inVain answers the challenge with a status that asks for another request.
func inVain(status int) func(w http.ResponseWriter, d *delivered) {
	return func(w http.ResponseWriter, d *delivered) {
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Location", "https://receiver.test/other")
		w.WriteHeader(status)
		answerChallenge(w, d)
	}
}

// answers are endpoints that do not pass the handshake, and what the subscriber is told.
var answers = []struct {
	name   string
	answer func(w http.ResponseWriter, d *delivered)
	want   wire.Category
}{
	{"wrong challenge", func(w http.ResponseWriter, d *delivered) { fmt.Fprint(w, `{"challenge":"LEAK"}`) }, wire.ChallengeFailed},
	{"challenge with a suffix", func(w http.ResponseWriter, d *delivered) { fmt.Fprintf(w, `{"challenge":"%sx"}`, d.body.Challenge) }, wire.ChallengeFailed},
	{"challenge under another name", func(w http.ResponseWriter, d *delivered) { fmt.Fprintf(w, `{"Challenge":%q}`, d.body.Challenge) }, wire.ChallengeFailed},
	{"challenge twice", func(w http.ResponseWriter, d *delivered) {
		fmt.Fprintf(w, `{"challenge":"LEAK","challenge":%q}`, d.body.Challenge)
	}, wire.ChallengeFailed},
	{"challenge as text", func(w http.ResponseWriter, d *delivered) { fmt.Fprint(w, d.body.Challenge) }, wire.ChallengeFailed},
	{"echo of the body in a list", func(w http.ResponseWriter, d *delivered) { fmt.Fprintf(w, "[%s]", d.raw) }, wire.ChallengeFailed},
	{"empty body", func(w http.ResponseWriter, d *delivered) {}, wire.ChallengeFailed},
	{"204", func(w http.ResponseWriter, d *delivered) { w.WriteHeader(204) }, wire.ChallengeFailed},
	{"huge body", func(w http.ResponseWriter, d *delivered) {
		fmt.Fprintf(w, `{"challenge":%q,"pad":%q}`, d.body.Challenge, strings.Repeat("LEAK", 20_000))
	}, wire.ChallengeFailed},
	{"307", func(w http.ResponseWriter, d *delivered) {
		w.Header().Set("Location", "http://169.254.169.254/")
		w.WriteHeader(307)
	}, wire.ChallengeFailed},
	{"301", inVain(301), wire.ChallengeFailed},
	{"400", inVain(400), wire.ChallengeFailed},
	{"404", func(w http.ResponseWriter, d *delivered) { http.Error(w, "LEAK", http.StatusNotFound) }, wire.ChallengeFailed},
	{"408", inVain(408), wire.ChallengeFailed},
	{"410", func(w http.ResponseWriter, d *delivered) { http.Error(w, "LEAK", http.StatusGone) }, wire.ChallengeFailed},
	{"413", func(w http.ResponseWriter, d *delivered) { http.Error(w, "LEAK", http.StatusRequestEntityTooLarge) }, wire.ChallengeFailed},
	{"425", inVain(425), wire.ChallengeFailed},
	{"429", inVain(429), wire.ChallengeFailed},
	{"500", inVain(500), wire.ChallengeFailed},
	{"502", inVain(502), wire.ChallengeFailed},
	{"503", func(w http.ResponseWriter, d *delivered) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "LEAK", http.StatusServiceUnavailable)
	}, wire.ChallengeFailed},
	{"504", inVain(504), wire.ChallengeFailed},
	{"hangs", func(w http.ResponseWriter, d *delivered) { time.Sleep(time.Minute) }, wire.Timeout},
	{"hangs in the body", func(w http.ResponseWriter, d *delivered) {
		io.WriteString(w, `{"challenge":`)
		w.(http.Flusher).Flush()
		time.Sleep(time.Minute)
	}, wire.Timeout},
	{"one byte a second", func(w http.ResponseWriter, d *delivered) {
		for _, b := range fmt.Sprintf(`{"challenge":%q}`, d.body.Challenge) {
			io.WriteString(w, string(b))
			w.(http.Flusher).Flush()
			time.Sleep(time.Second)
		}
	}, wire.Timeout},
	{"resets", func(w http.ResponseWriter, d *delivered) { panic(http.ErrAbortHandler) }, wire.ConnectionRefused},
	{"answers no HTTP", func(w http.ResponseWriter, d *delivered) {
		c, _, _ := w.(http.Hijacker).Hijack()
		io.WriteString(c, "LEAK LEAK LEAK\r\n\r\n")
		c.Close()
	}, wire.ConnectionRefused},
}

// TestVER2BadAnswers: each endpoint that misbehaves ends in its category within ten seconds, is
// asked once, leaks nothing and leaves nothing behind; its challenge names the id that a later call returns (VER-2,
// ERR-1, ERR-2, D12).
func TestVER2BadAnswers(t *testing.T) {
	for _, c := range answers {
		bubble(t, nil, func(t *testing.T, w *world) {
			hooks := &journal{}
			register(t, w.Server, "e", Hooks[filterArgs, incident]{OnSubscribe: func(context.Context, Subscription, *filterArgs) error { hooks.add("on"); return nil }})
			w.r.on(func(rw http.ResponseWriter, d *delivered) bool { c.answer(rw, d); return true })
			began := time.Now()
			_, rerr := call(w.Server, "alice", wire.MethodSubscribe, params(secure, secretA, ""))
			if rerr == nil || rerr.Code != -32015 || rerr.Message != "CallbackEndpointError: "+string(c.want) || string(rerr.Data) != fmt.Sprintf(`{"reason":%q}`, c.want) {
				t.Errorf("%s: got %v, want %s", c.name, rerr, c.want)
			}
			if took := time.Since(began); took >= 10*time.Second {
				t.Errorf("%s: took %s", c.name, took)
			}
			w.settle(2 * time.Minute)
			if n := len(w.r.challenges()); n != 1 || len(hooks.lines()) != 0 {
				t.Errorf("%s: %d challenges, hooks %q", c.name, n, hooks.lines())
			}
			w.nothingLeft(hooks)
			w.r.on(nil)
			s := w.subscribe("alice", params(secure, secretA, ""))
			for i, d := range w.r.challenges() {
				if id := d.header.Get(wire.HeaderSubscriptionID); id != s.ID {
					t.Errorf("%s: challenge %d named %s, the call %s", c.name, i, id, s.ID)
				}
			}
		})
	}
}

// TestVER2NoConnection: what keeps a connection from being made is told by its category (VER-2,
// ERR-1).
func TestVER2NoConnection(t *testing.T) {
	ask := func(t testing.TB, w *world, url string, want wire.Category) {
		t.Helper()
		_, rerr := call(w.Server, "alice", wire.MethodSubscribe, params(url, secretA, ""))
		wantError(t, rerr, -32015, fmt.Sprintf(`{"reason":%q}`, want))
		w.nothingLeft(nil)
	}
	bubble(t, nil, func(t *testing.T, w *world) {
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		w.r.answer = func(string) ([]string, error) { return nil, &net.DNSError{Err: "LEAK", IsNotFound: true} }
		ask(t, w, secure, wire.ConnectionRefused)
		w.r.answer = nil
		w.r.network.Close()
		ask(t, w, secure, wire.ConnectionRefused)
	})
	bubble(t, func(o *Options) { o.webhook().Callbacks.TLS = nil }, func(t *testing.T, w *world) {
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		ask(t, w, secure, wire.TLSError)
	})
	// Rebinding: public when asked, private when dialed (SSRF-1, trap 8).
	bubble(t, nil, func(t *testing.T, w *world) {
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		lookups := 0
		w.r.answer = func(string) ([]string, error) {
			if lookups++; lookups > 1 {
				return []string{"10.0.0.1"}, nil
			}
			return []string{"93.184.216.34"}, nil
		}
		ask(t, w, secure, wire.ConnectionRefused)
		if n := w.r.packets(); n != 0 {
			t.Errorf("%d connections", n)
		}
	})
}

// TestSSRF1RebindingAtDelivery verifies a callback whose name then moves inside: no delivery
// reaches it (SSRF-1, SSRF-3, ERR-1, trap 8).
func TestSSRF1RebindingAtDelivery(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		s := w.subscribe("alice", params(secure, secretA, ""))
		w.settle(10 * time.Minute) // the connection of the handshake is closed
		w.r.answer = func(string) ([]string, error) { return []string{"169.254.169.254"}, nil }
		before := w.r.packets()
		emit(t, e, incident{ID: "i1"})
		w.settle(time.Hour / 4)
		if n := w.r.packets(); n != before {
			t.Errorf("%d connections", n-before)
		}
		if i, _ := w.Admin().Get(t.Context(), s.ID); i.LastError != string(wire.ConnectionRefused) {
			t.Errorf("%+v", i)
		}
	})
}

// TestVER3Budget bounds failed verifications per host and per principal, whatever the mix of URLs,
// ports, spellings, principals and answers, and forgets them after a minute (VER-3, trap 7).
// The budget's begin, enter and leave in internal/webhooks/verify carry it.
func TestVER3Budget(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		w.r.on(func(rw http.ResponseWriter, d *delivered) bool { rw.WriteHeader(500); return true })
		over := 0
		ask := func(i int, principal, url string) {
			_, rerr := call(w.Server, principal, wire.MethodSubscribe, params(url, secretA, ""))
			if rerr != nil && rerr.Code == -32013 && slices.Contains([]string{`{"limit":"verifications"}`, `{"limit":"verifications","reason":"others"}`}, string(rerr.Data)) {
				over++
			}
		}
		for i := range 40 {
			host := []string{"receiver.test", "RECEIVER.test", "receiver.test.", "receiver.test:444", fmt.Sprint("receiver.test:", 1000+i)}[i%5]
			ask(i, fmt.Sprint("p", i), fmt.Sprintf("https://%s/hooks/%d", host, i))
		}
		if n := len(w.r.challenges()); n != 20 || over != 20 || w.r.fetched > 20 {
			t.Errorf("one host: %d challenges, %d refused, %d documents", n, over, w.r.fetched)
		}
		w.settle(time.Minute)
		for i := range 40 {
			ask(i, "mallory", fmt.Sprintf("https://h%d.test/", i))
		}
		if n := len(w.r.challenges()); n != 30 || over != 50 {
			t.Errorf("one principal: %d challenges, %d refused", n, over)
		}
		w.settle(time.Minute)
		ask(0, "mallory", "https://h0.test/")
		if n := len(w.r.challenges()); n != 31 {
			t.Errorf("after a minute: %d challenges", n)
		}
		w.nothingLeft(nil)
	})
}

// TestVER3BudgetAtOnce sends many subscribes at once: failures stay within the budget although
// none is known when the others begin, and successes of a busy shared receiver are all let through
// (VER-3, trap 7).
// The budget's enter carries it, which counts those under way.
func TestVER3BudgetAtOnce(t *testing.T) {
	for _, good := range []bool{true, false} {
		bubble(t, nil, func(t *testing.T, w *world) {
			register(t, w.Server, "e", Hooks[filterArgs, incident]{})
			w.r.on(func(rw http.ResponseWriter, d *delivered) bool {
				time.Sleep(50 * time.Millisecond)
				if !good {
					rw.WriteHeader(500)
				}
				return !good
			})
			var wg sync.WaitGroup
			refused := make(chan *jsonrpc.Error, 200)
			for i := range 200 {
				wg.Go(func() {
					if _, rerr := call(w.Server, fmt.Sprint("p", i), wire.MethodSubscribe, params(fmt.Sprint(plain, i), secretA, "")); rerr != nil {
						refused <- rerr
					}
				})
			}
			wg.Wait()
			n := len(w.r.challenges())
			if good && (n != 200 || len(refused) != 0) || !good && (n != 20 || len(refused) != 200) {
				t.Errorf("good %v: %d challenges, %d refused", good, n, len(refused))
			}
		})
	}
}

// TestVER3SingleFlight subscribes with many arguments at once: the callback is asked once, also
// when the first caller goes away, and when it subscribes by itself while it is asked nothing
// locks up (VER-3, trap 7).
// The lock by pair in the verifier's Verify carries it.
func TestVER3SingleFlight(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		w.r.on(func(rw http.ResponseWriter, d *delivered) bool { time.Sleep(time.Second); return false })
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				w.subscribe("alice", params(plain, secretA, fmt.Sprintf(`,"arguments":{"minLevel":%d}`, i)))
			})
		}
		wg.Wait()
		if n := len(w.r.challenges()); n != 1 {
			t.Errorf("%d challenges", n)
		}
		// The first goes away, the second verifies.
		gone, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			_, err := w.inside().Call(gone, port.Request{Method: wire.MethodSubscribe, Params: []byte(params(plain, secretA, "")), Principal: "bob", Stateless: true})
			if err == nil {
				t.Error("accepted for nobody")
			}
		})
		synctest.Wait()
		wg.Go(func() { w.subscribe("bob", params(plain, secretA, `,"arguments":{"minLevel":1}`)) })
		synctest.Wait()
		cancel()
		wg.Wait()
		if n := len(w.r.challenges()); n != 3 {
			t.Errorf("%d challenges", n)
		}
		// The callback subscribes while it is asked.
		w.r.on(func(rw http.ResponseWriter, d *delivered) bool {
			_, rerr := call(w.Server, "carol", wire.MethodSubscribe, params(plain, secretA, ""))
			return rerr != nil && false
		})
		began := time.Now()
		call(w.Server, "carol", wire.MethodSubscribe, params(plain, secretA, ""))
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("took %s", took)
		}
		w.r.on(nil)
		w.settle(time.Minute)
		w.subscribe("carol", params(plain, secretA, ""))
	})
}
