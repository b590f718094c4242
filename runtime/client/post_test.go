package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/oauth2"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// refusing makes f refuse a request for a stream while left is positive.
func refusing(f *fake, left *atomic.Int64, status int, kind, body string) {
	f.refuse = func(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Request) bool {
		if m.Method != wire.MethodStream || left.Add(-1) < 0 {
			return false
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		io.WriteString(w, strings.ReplaceAll(body, "$ID", idText(m.ID.Raw())))
		return true
	}
}

// eventsMethods are the events methods that f was sent.
func (f *fake) eventsMethods() (all []string) {
	for _, m := range f.methods() {
		if strings.HasPrefix(m, "events/") {
			all = append(all, m)
		}
	}
	return all
}

// CLI-4: after a refusal of a stream by status 401, 403 or 404 the client asks for the list by the SDK, and tries the stream
// once more. The second refusal counts. An answer of JSON-RPC is one, whatever its status.
func TestCLI4RefusedStream(t *testing.T) {
	const text, rpc = "text/plain", typeJSON
	answer := func(kind wire.Kind, data string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":$ID,"error":{"code":%d,"message":%q,"data":%s}}`, wire.Dialect(0).Code(kind), kind, data)
	}
	list, stream := wire.MethodList, wire.MethodStream
	for _, tt := range []struct {
		status     int
		kind, body string
		times      int64 // that the stream is refused
		asked      []string
		fails      bool
	}{
		{401, text, "who are you", 1, []string{list, stream, list, stream}, false},
		{403, text, "go away", 1, []string{list, stream, list, stream}, false},
		{404, text, "nothing here", 1, []string{list, stream, list, stream}, false},
		{401, text, "who are you", 9, []string{list, stream, list, stream}, true},
		{403, text, "go away", 9, []string{list, stream, list, stream}, true},
		{403, rpc, answer(wire.Forbidden, "{}"), 9, []string{list, stream}, true},
		{404, rpc, answer(wire.NotFound, "{}"), 9, []string{list, stream, list, stream}, true}, // the list has the type: it is read again
		{500, text, "oops", 9, []string{list, stream}, true},
	} {
		for _, c := range carriers[2:] {
			t.Run(fmt.Sprint(tt.status, tt.body, tt.times, c.name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFake(c.legacy)
					f.stream = numbered(1)
					var left atomic.Int64
					left.Store(tt.times)
					refusing(f, &left, tt.status, tt.kind, tt.body)
					cl := connect(t, f, c, Options{})
					s, err := Subscribe(t.Context(), cl, Dynamic("tick"), nil)
					if (err != nil) != tt.fails {
						t.Error(err)
					}
					if got := f.eventsMethods(); !slices.Equal(got, tt.asked) {
						t.Errorf("asked %v, want %v", got, tt.asked)
					}
					if err == nil {
						read(t, s).want("e1")
					} else if status := (*StatusError)(nil); errors.As(err, &status) != (tt.kind == text) || status != nil && status.Status != tt.status {
						t.Error(err)
					}
				})
			})
		}
	}
}

// CLI-4: a stream that is refused since the server has lost the session goes on in a new one; the list finds that out.
func TestCLI4StreamOfALostSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(true)
		next := make(chan struct{})
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
			st.active("c0")
			st.event(fmt.Sprint("e", len(f.cursors())), fmt.Sprint("c", len(f.cursors())))
			select {
			case <-next:
				return nil, nil
			case <-st.ctx.Done():
				return nil, nil
			}
		}
		r := read(t, subscribe(t, connect(t, f, carriers[2], Options{})))
		r.want("e1")
		f.forgetSessions()
		next <- struct{}{}
		r.want("e2")
		if n := len(f.sent(methodInitialize)); n != 2 {
			t.Errorf("%d handshakes: %v", n, f.methods())
		}
		if got := f.cursors(); len(got) != 2 || got[1] != "c1" {
			t.Errorf("cursors %q", got)
		}
	})
}

// In a session of an older revision the end of a stream's connection does not end it: the server is told.
func TestCLI4CancelledInASession(t *testing.T) {
	for _, c := range carriers[2:] {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(c.legacy)
			f.stream = numbered(1)
			cl := connect(t, f, c, Options{})
			s := subscribe(t, cl)
			read(t, s).want("e1")
			s.Close()
			synctest.Wait()
			told := f.sent("notifications/cancelled")
			if len(told) != map[bool]int{true: 1, false: 0}[c.legacy] {
				t.Fatalf("%s: %d", c.name, len(told))
			}
			if len(told) > 0 && !strings.Contains(string(told[0].Params), `"requestId":"stream-1"`) {
				t.Errorf("%s", told[0].Params)
			}
		})
	}
}

// CAP-3, D3: a request for a stream has what the SDK's own requests have: the session, the revision and the method in its
// headers, and the _meta of its revision.
func TestStreamHeaders(t *testing.T) {
	for _, c := range carriers[2:] {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(c.legacy)
			f.stream = numbered(1)
			f.poll = func(wire.PollParams) (any, *jsonrpc.Error) { return polled("c", false, 1e6), nil }
			cl := connect(t, f, c, Options{})
			read(t, subscribe(t, cl)).want("e1")
			subscribe(t, cl, WithMode("poll"))
			stream, poll := f.sent(wire.MethodStream)[0], f.sent(wire.MethodPoll)[0]
			for name := range poll.Header {
				got, want := stream.Header.Get(name), strings.ReplaceAll(poll.Header.Get(name), wire.MethodPoll, wire.MethodStream)
				if got != want && name != "Content-Length" {
					t.Errorf("%s: %s is %q, want %q", c.name, name, got, want)
				}
			}
			if len(stream.Header) != len(poll.Header) {
				t.Errorf("%s: %v, want %v", c.name, stream.Header, poll.Header)
			}
			if got, want := wire.FirstMember(stream.Params, "_meta"), wire.FirstMember(poll.Params, "_meta"); string(got) != string(want) {
				t.Errorf("%s: _meta %s, want %s", c.name, got, want)
			}
		})
	}
}

// A login is an OAuth handler whose tokens last for a while. A refresh token is good for one refresh, and only a window gives
// the scope of streams.
type login struct {
	mu        sync.Mutex
	windows   int
	refreshed map[string]int // by refresh token
	issued    int
	source    oauth2.TokenSource
}

const tokenLife = 5 * time.Minute

func (l *login) TokenSource(context.Context) (oauth2.TokenSource, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.source, nil
}

// Authorize opens a window, which takes time.
func (l *login) Authorize(_ context.Context, _ *http.Request, resp *http.Response) error {
	defer resp.Body.Close()
	scope := "list"
	if strings.Contains(resp.Header.Get("WWW-Authenticate"), `scope="stream"`) {
		scope = "stream"
	}
	time.Sleep(10 * time.Second)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.windows++
	l.source = oauth2.ReuseTokenSource(nil, &refreshing{l: l, scope: scope})
	return nil
}

type refreshing struct {
	l     *login
	scope string
	last  string
}

func (r *refreshing) Token() (*oauth2.Token, error) {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	if r.last != "" {
		r.l.refreshed[r.last]++
	}
	r.l.issued++
	r.last = fmt.Sprint("refresh-", r.l.issued)
	return &oauth2.Token{AccessToken: fmt.Sprintf("%s-%d", r.scope, r.l.issued), RefreshToken: r.last, Expiry: time.Now().Add(tokenLife)}, nil
}

// Streams and calls that are refused together open one browser window, for the scope that the stream was refused for; later
// each refresh token is used once.
func TestOAuthOneWindow(t *testing.T) {
	for _, c := range carriers[2:] {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(c.legacy)
			f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
				st.active("c0")
				time.Sleep(tokenLife) // the token ends the stream
				return nil, nil
			}
			f.refuse = func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Request) bool {
				token := r.Header.Get("Authorization")
				switch {
				case token == "":
					w.Header().Set("WWW-Authenticate", `Bearer scope="list"`)
					w.WriteHeader(http.StatusUnauthorized)
				case m.Method == wire.MethodStream && !strings.HasPrefix(token, "Bearer stream-"):
					w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="stream"`)
					w.WriteHeader(http.StatusForbidden)
				default:
					return false
				}
				return true
			}
			l := &login{refreshed: map[string]int{}}
			tr := f.transport(t, c).(*mcp.StreamableClientTransport)
			tr.OAuthHandler = l
			cl, err := Connect(t.Context(), tr, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			if l.windows != 1 {
				t.Errorf("%d windows for the session", l.windows)
			}
			var both sync.WaitGroup
			for range 2 {
				both.Go(func() {
					if _, err := Subscribe(t.Context(), cl, Dynamic("tick"), nil); err != nil {
						t.Error(err)
					}
				})
			}
			both.Wait()
			if l.windows != 2 {
				t.Errorf("%d windows for two streams of another scope", l.windows-1)
			}
			time.Sleep(4 * tokenLife)
			if len(l.refreshed) < 3 || l.windows != 2 {
				t.Errorf("%d refreshes, %d windows", len(l.refreshed), l.windows)
			}
			for token, n := range l.refreshed {
				if n != 1 {
					t.Errorf("%s was used %d times", token, n)
				}
			}
		})
	}
}
