package bridge

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// killsVar is how many kills, instead of a few.
const killsVar = "MCPE_BRIDGE_KILLS"

// A front is the address of a server that is started again and again.
type front struct {
	*httptest.Server
	to atomic.Pointer[url.URL]
}

func newFront(t *testing.T) *front {
	f := &front{}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(f.to.Load()) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			// A stream that its server has broken off is broken off here too, without a page in the log.
			if v := recover(); v != nil {
				panic(http.ErrAbortHandler)
			}
		}()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// A source is a server that runs as a program behind a front.
type source struct {
	*program
	lines *bufio.Reader
}

func (f *front) serve(t *testing.T, db string) *source {
	t.Helper()
	s := &source{program: act(t, "server", db)}
	s.lines = bufio.NewReader(s.out)
	addr, err := s.lines.ReadString('\n')
	if err != nil {
		t.Fatal(err, s.said)
	}
	f.to.Store(&url.URL{Scheme: "http", Host: strings.TrimSpace(addr)})
	return s
}

// emit emits events under their ids.
func (s *source) emit(ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		if _, err := fmt.Fprintln(s.in, id); err != nil {
			s.t.Fatal(err, s.said)
		}
		if line, err := s.lines.ReadString('\n'); err != nil || strings.TrimSpace(line) != id {
			s.t.Fatal(line, err, s.said)
		}
	}
}

// BRIDGE-7: kills of the bridge and of its server lose nothing. What is shown again was in the last result before a
// kill of the bridge, and after an orderly end nothing is.
func TestBRIDGE7Killed(t *testing.T) {
	kills := 6
	if n, err := strconv.Atoi(os.Getenv(killsVar)); err == nil {
		kills = n
	}
	dir := t.TempDir()
	db, state := filepath.Join(dir, "server.db"), filepath.Join(dir, "state")
	random := rand.New(rand.NewPCG(3, 4))
	f := newFront(t)
	src := f.serve(t, db)
	shown, repeated, emitted := map[string]int{}, 0, 0
	var last []string // the result after which the bridge was killed, nil after another end
	more := func() {
		var ids []string
		for range 5 + random.IntN(20) {
			emitted++
			ids = append(ids, fmt.Sprint("e", emitted))
		}
		src.emit(ids...)
	}
	for life := 0; life <= kills; life++ {
		p := act(t, "bridge", f.URL, state, "")
		b := p.agent()
		before := last
		last = nil
		take := func(ids []string) {
			last = ids
			for _, id := range ids {
				if shown[id]++; shown[id] > 1 {
					repeated++
					if !slices.Contains(before, id) {
						t.Errorf("life %d: %s is shown again", life, id)
					}
				}
			}
		}
		if life == 0 {
			// From here on nothing may be missing.
			until(t, "the first cursor", func() bool {
				text, _ := os.ReadFile(filepath.Join(state, "cursors"))
				return strings.Contains(string(text), `"kind":"cursor"`)
			})
		}
		more()
		enough := len(shown) + 1 + random.IntN(10)
		all := life == kills
		server := !all && random.IntN(4) == 0
		if server {
			src.cmd.Process.Kill()
			src.cmd.Wait()
			src = f.serve(t, db)
			more()
		}
		until(t, "events", func() bool {
			take(b.wait(1))
			return all && len(shown) == emitted || !all && len(shown) >= min(enough, emitted)
		})
		switch {
		case all || random.IntN(5) == 0:
			last = nil
			p.cmd.Process.Signal(syscall.SIGTERM)
			if code := p.ends(); code != 0 {
				t.Fatalf("life %d: it ended with %d: %s", life, code, p.said)
			}
			b.session.Wait()
		default:
			more()
			results := make(chan []string, 1)
			go func() { // one result more, in the middle of which it may be killed
				var r inboxResult
				if b.call("events_wait", map[string]any{"waitSeconds": 50}, &r) != nil {
					r = inboxResult{}
				}
				results <- idsOf(r)
			}()
			for range random.IntN(2000) {
				// as long as it takes
				_ = json.Valid([]byte(`{"a":[1,2,3]}`))
			}
			p.cmd.Process.Kill()
			p.cmd.Wait()
			// What it has written before it was killed counts as shown.
			if ids := <-results; len(ids) > 0 {
				take(ids)
			}
			b.session.Wait()
		}
	}
	for i := range emitted {
		if id := fmt.Sprint("e", i+1); shown[id] == 0 {
			t.Errorf("%s is lost", id)
		}
	}
	src.in.Close()
	if code := src.ends(); code != 0 {
		t.Error(code, src.said)
	}
	t.Logf("%d kills, %d events, %d shown again", kills, emitted, repeated)
}

// BRIDGE-4: the command is run for each batch, again when it says so. A batch that it has settled is read, one that it
// has given up stays unread with the reason.
func TestBRIDGE4Command(t *testing.T) {
	f := newFront(t)
	dir := t.TempDir()
	src := f.serve(t, filepath.Join(dir, "server.db"))
	ran := filepath.Join(dir, "ran")
	p := act(t, "bridge", f.URL, filepath.Join(dir, "state"), ran)
	b := p.agent()
	until(t, "the subscription", func() bool { return b.subscriptions()[0].State == active })
	src.emit("e1", "again2", "dead3", "e4")
	var box inboxResult
	until(t, "the command", func() bool {
		text, _ := os.ReadFile(ran)
		box = inboxResult{}
		if err := b.call("events_inbox", nil, &box); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(text), "e4") && len(box.Batches) == 1
	})
	text, err := os.ReadFile(ran)
	if err != nil {
		t.Fatal(err)
	}
	want(t, strings.Fields(string(text)), "e1", "again2", "again2", "dead3", "e4")
	want(t, idsOf(box), "dead3")
	if why := box.Batches[0].CommandFailed; !strings.Contains(why, "it is dead") {
		t.Error(why)
	}
	b.session.Close()
	if code := p.ends(); code != 0 {
		t.Errorf("%d: %s", code, p.said)
	}
	src.in.Close()
	src.ends()
}
