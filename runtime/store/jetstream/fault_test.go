package jetstream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/check"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream"
)

// A wire creates connections that can break.
type wire struct {
	mu    sync.Mutex
	sent  []byte // everything that was sent
	got   int    // number of received bytes
	until string // the next write that contains it is the last one of its connection; "" for none
	broke int
}

func (w *wire) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return &wired{Conn: c, w: w}, nil
}

func (w *wire) breakAt(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until = text
}

type wired struct {
	net.Conn
	w    *wire
	over atomic.Bool
}

// Read returns nothing after the last write, so that the answer is lost even if the server is fast.
func (c *wired) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.w.mu.Lock()
	c.w.got += n
	c.w.mu.Unlock()
	if c.over.Load() {
		return 0, io.EOF
	}
	return n, err
}

func (c *wired) Write(b []byte) (int, error) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.sent = append(c.w.sent, b...)
	last := c.w.until != "" && bytes.Contains(b, []byte(c.w.until))
	if last {
		c.over.Store(true)
	}
	n, err := c.Conn.Write(b)
	if last {
		c.w.until, c.w.broke = "", c.w.broke+1
		c.Conn.(*net.TCPConn).CloseWrite() // the server reads everything that was sent
		c.Conn.Close()
	}
	return n, err
}

func (w *wire) received() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.got
}

// publishes returns the sent frames for subjects with a prefix.
func (w *wire) publishes(subject string) (frames [][]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for rest := w.sent; ; {
		i := bytes.Index(rest, []byte("HPUB "+subject))
		if i < 0 {
			return frames
		}
		rest = rest[i:]
		line, _, _ := bytes.Cut(rest, []byte("\r\n"))
		words := strings.Fields(string(line))
		n, _ := strconv.Atoi(words[len(words)-1])
		end := len(line) + 2 + n + 2
		frames = append(frames, rest[:end])
		rest = rest[end:]
	}
}

// After a lost answer, an append is recognized: it exists once, is fresh, and its position is known (JS-6).
func TestLostAnswer(t *testing.T) {
	var w wire
	o := jetstream.Options{Namespace: space(), Single: true, Connect: []nats.Option{nats.SetCustomDialer(&w)}}
	l := check.OpenLog(t, open(t, alone.ClientURL(), o), "log", bounded)
	check.Add(t, l, 1)
	w.breakAt("HPUB " + o.Namespace + ".l.")
	check.Once(t, l, check.Entry("x"), 0, 2, true)
	w.breakAt("HPUB " + o.Namespace + ".l.")
	p, err := l.Append(t.Context(), check.Entry("x")) // Append may repeat an id
	if p != 3 || err != nil {
		t.Fatalf("Append = %d, %v", p, err)
	}
	if w.broke != 2 {
		t.Fatalf("%d answers were lost", w.broke)
	}
	check.Once(t, l, check.Entry("x"), 0, 3, false)
	check.Equal(t, len(check.Read(t, l, 0, 10).Entries), 3)
}

// Copies of publishes that arrive late are refused, including those of Append (JS-2).
func TestLateCopies(t *testing.T) {
	var w wire
	o := jetstream.Options{Namespace: space(), Single: true, Connect: []nats.Option{nats.SetCustomDialer(&w)}}
	l := check.OpenLog(t, open(t, alone.ClientURL(), o), "log", bounded)
	check.Add(t, l, 2)
	check.Once(t, l, check.Entry("x"), 0, 3, true)
	check.Must(l.Append(t.Context(), check.Entry("x")))(t)
	frames := w.publishes(o.Namespace + ".l.")
	if len(frames) != 5 { // the last one once without and once with the existing sequence
		t.Fatalf("%d publishes", len(frames))
	}
	c := check.Must(net.Dial("tcp", strings.TrimPrefix(alone.ClientURL(), "nats://")))(t)
	defer c.Close()
	fmt.Fprintf(c, "CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true,\"protocol\":1}\r\n")
	for range 2 {
		for _, f := range frames {
			check.Must(c.Write(f))(t)
		}
	}
	fmt.Fprintf(c, "PING\r\n")
	var got []byte
	c.SetReadDeadline(time.Now().Add(time.Minute))
	for b := make([]byte, 4096); !bytes.Contains(got, []byte("PONG")); {
		n := check.Must(c.Read(b))(t)
		got = append(got, b[:n]...)
	}
	if p := check.Must(l.Append(t.Context(), check.Entry("y")))(t); p != 5 {
		t.Fatalf("a copy stands: the next position is %d", p)
	}
}

// An entry larger than the servers accept is refused before anything is sent (JS-15).
func TestTooLarge(t *testing.T) {
	l := check.OpenLog(t, single(t), "log", bounded)
	e := check.With(check.Entry("large"), `"`+strings.Repeat("x", 8<<20)+`"`)
	if _, err := l.Append(t.Context(), e); !errors.Is(err, events.ErrTooLarge) {
		t.Fatalf("Append: %v", err)
	}
	check.Add(t, l, 1)
}

// Open warns about servers that accept less than the payload of a webhook (JS-15).
func TestSmallPayload(t *testing.T) {
	for most, warns := range map[int32]bool{256 << 10: true, 512 << 10: false} {
		o := options(t.TempDir())
		o.MaxPayload = most
		x := start(o)
		defer stop(x)
		var said bytes.Buffer
		open(t, x.ClientURL(), jetstream.Options{Single: true, Logger: slog.New(slog.NewTextHandler(&said, nil))})
		if strings.Contains(said.String(), "max_payload") != warns {
			t.Errorf("with %d bytes it says %s", most, &said)
		}
	}
}

// Errors of Open and OpenLog match the exported errors (JS-42).
func TestOpenRefuses(t *testing.T) {
	plain := start(&server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true})
	defer stop(plain)
	others := options(t.TempDir())
	account := server.NewAccount("other")
	others.Accounts = []*server.Account{account}
	others.Users = []*server.User{{Username: "worker", Password: "secret", Account: account}}
	accounts := start(others)
	defer stop(accounts)
	for name, tc := range map[string]struct {
		url  string
		o    jetstream.Options
		want error
	}{
		"a bad namespace":                   {alone.ClientURL(), jetstream.Options{Namespace: "a.b", Single: true}, jetstream.ErrConfig},
		"a negative Poll":                   {alone.ClientURL(), jetstream.Options{Poll: -1, Single: true}, jetstream.ErrConfig},
		"nobody there":                      {"nats://127.0.0.1:1", jetstream.Options{}, jetstream.ErrUnreachable},
		"no cluster":                        {alone.ClientURL(), jetstream.Options{}, jetstream.ErrReplicas},
		"a server that has no JetStream":    {plain.ClientURL(), jetstream.Options{Single: true}, jetstream.ErrUnreachable},
		"an account that has no JetStream":  {strings.Replace(accounts.ClientURL(), "nats://", "nats://worker:secret@", 1), jetstream.Options{Single: true}, jetstream.ErrUnreachable},
		"a wrong password, which is hidden": {strings.Replace(guarded(t).ClientURL(), "nats://", "nats://worker:not-the-password@", 1), jetstream.Options{Single: true}, jetstream.ErrRights},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // an answer may still arrive
			defer cancel()
			s, err := jetstream.Open(ctx, tc.url, quiet(tc.o))
			if !errors.Is(err, tc.want) {
				t.Errorf("%v", err)
			}
			if err == nil {
				s.Close()
			} else if strings.Contains(err.Error(), "not-the-password") {
				t.Errorf("the error has the password: %v", err)
			}
		})
	}
}

// guarded starts a server whose user worker may not append to the log closed, nor create the stream of none.
func guarded(t *testing.T) *server.Server {
	t.Helper()
	o := options(t.TempDir())
	o.Users = []*server.User{
		{Username: "all", Password: "secret"},
		{Username: "worker", Password: "secret", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{"g.l.closed.>", "$JS.API.STREAM.CREATE.>"}}}},
	}
	s := start(o)
	t.Cleanup(func() { stop(s) })
	return s
}

// A missing right is named immediately (JS-34).
func TestRights(t *testing.T) {
	s := guarded(t)
	as := func(user string) *jetstream.Store {
		return open(t, s.ClientURL(), jetstream.Options{Namespace: "g", Single: true, Connect: []nats.Option{nats.UserInfo(user, "secret")}})
	}
	check.OpenLog(t, as("all"), "closed", bounded)
	check.OpenLog(t, as("all"), "open", bounded)
	worker := as("worker")
	check.Add(t, check.OpenLog(t, worker, "open", bounded), 1)
	for what, f := range map[string]func() error{
		"g.l.closed.": func() error {
			_, err := check.OpenLog(t, worker, "closed", bounded).Append(t.Context(), check.Entry("x"))
			return err
		},
		"$JS.API.STREAM.CREATE.G_L_none": func() error { _, err := worker.OpenLog(t.Context(), "none", bounded); return err },
	} {
		if err := f(); !errors.Is(err, jetstream.ErrRights) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A slowWriter takes 300 ms for each write.
type slowWriter struct{}

func (slowWriter) Write(p []byte) (int, error) {
	time.Sleep(300 * time.Millisecond)
	return len(p), nil
}

// A batch names the missing right, although the connection's error handler, which writes the log, lags behind the
// answers (JS-34).
func TestRightsOfBatches(t *testing.T) {
	o := options(t.TempDir())
	o.Users = []*server.User{
		{Username: "all", Password: "secret"},
		{Username: "worker", Password: "secret", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{"g.l.closed.>", "g.s.o.*.*.r.*"}}}},
	}
	x := start(o)
	t.Cleanup(func() { stop(x) })
	as := func(user string, log io.Writer) *jetstream.Store {
		return open(t, x.ClientURL(), jetstream.Options{Namespace: "g", Single: true, Logger: slog.New(slog.NewTextHandler(log, nil)),
			Connect: []nats.Option{nats.UserInfo(user, "secret")}})
	}
	check.OpenLog(t, as("all", io.Discard), "closed", bounded)
	for denied, batch := range map[string]func(*jetstream.Store) error{
		"g.l.closed.": func(s *jetstream.Store) error {
			_, err := s.AppendGroup(t.Context(), "closed", []store.Outgoing{{Entry: check.Entry("1")}, {Entry: check.Entry("2")}})
			return err
		},
		"g.s.o.": func(s *jetstream.Store) error {
			_, err := s.PutSubscription(t.Context(), inShard("sub_1", 0))
			return err
		},
	} {
		t.Run(denied, func(t *testing.T) {
			t.Parallel()
			if err := batch(as("worker", slowWriter{})); !errors.Is(err, jetstream.ErrRights) || !strings.Contains(err.Error(), denied) {
				t.Error(err)
			}
		})
	}
}

// A missing right to subscribe is also named: without the first, no answers arrive, and without the second, no
// entries of other processes, and the reason would be invisible (JS-34).
func TestRightsToSubscribe(t *testing.T) {
	o := options(t.TempDir())
	for user, denied := range map[string]string{"tail": "g.t.>", "inbox": "_INBOX.>"} {
		o.Users = append(o.Users, &server.User{Username: user, Password: "secret",
			Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{denied}}}})
	}
	x := start(o)
	t.Cleanup(func() { stop(x) })
	for user, named := range map[string]string{"tail": "to subscribe to g.t.", "inbox": "to subscribe to _INBOX."} {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			s, err := jetstream.Open(t.Context(), x.ClientURL(), quiet(jetstream.Options{Namespace: "g", Single: true, Connect: []nats.Option{nats.UserInfo(user, "secret")}}))
			if err == nil {
				s.Close()
			}
			if !errors.Is(err, jetstream.ErrRights) || !strings.Contains(fmt.Sprint(err), named) {
				t.Errorf("Open: %v", err)
			}
		})
	}
}

// Open and OpenLog name a stream of another program that takes our subjects under a different name (JS-42).
func TestForeignSubjects(t *testing.T) {
	_, js := raw(t, alone.ClientURL())
	for _, tc := range []struct {
		takes string
		opens bool
	}{{"s.>", false}, {"l.log.>", true}} {
		o := jetstream.Options{Namespace: space(), Single: true}
		foreign := natsjs.StreamConfig{Name: "FOREIGN_" + o.Namespace, Subjects: []string{o.Namespace + "." + tc.takes}}
		check.Must(js.CreateStream(t.Context(), foreign))(t)
		s, err := jetstream.Open(t.Context(), alone.ClientURL(), quiet(o))
		if err == nil {
			defer s.Close()
		}
		if tc.opens {
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.OpenLog(t.Context(), "log", bounded)
		}
		if !errors.Is(err, jetstream.ErrForeign) {
			t.Errorf("%s: %v", tc.takes, err)
		}
	}
}

// A byte that has changed on a disk gives an error, never another entry (JS-1).
func TestDamaged(t *testing.T) {
	o := jetstream.Options{Namespace: space(), Single: true}
	l := check.OpenLog(t, open(t, alone.ClientURL(), o), "log", bounded)
	e := check.With(check.Entry("é"), `{"a":"<&>"}`)
	e.Targets, e.Meta, e.Cursor = []string{}, json.RawMessage(`{}`), "c"
	check.Must(l.Append(t.Context(), e))(t)
	c, js := raw(t, alone.ClientURL())
	stream := check.Must(js.Stream(t.Context(), strings.ToUpper(o.Namespace)+"_L_log"))(t)
	m := check.Must(stream.GetMsg(t.Context(), 1))(t)
	if err := jetstream.Decodes(m.Data); err != nil {
		t.Fatal(err)
	}
	for i := range m.Data {
		for _, bit := range []byte{1, 0x80} {
			b := bytes.Clone(m.Data)
			b[i] ^= bit
			if jetstream.Decodes(b) == nil {
				t.Fatalf("byte %d may change", i)
			}
		}
		if jetstream.Decodes(m.Data[:i]) == nil {
			t.Fatalf("%d bytes are enough", i)
		}
	}
	b := bytes.Clone(m.Data)
	b[len(b)/2] ^= 1
	if _, err := c.Request(m.Subject, b, 5*time.Second); err != nil { // as another program would write it
		t.Fatal(err)
	}
	again := check.OpenLog(t, open(t, alone.ClientURL(), o), "log", bounded)
	if _, err := again.Read(t.Context(), 1, 1); !errors.Is(err, jetstream.ErrCorrupt) {
		t.Fatalf("Read: %v", err)
	}
	if got := check.Read(t, again, 0, 1).Entries[0]; string(got.Data) != string(e.Data) || got.Targets == nil || len(got.Targets) != 0 {
		t.Fatalf("%+v", got)
	}
}
