package jetstream_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpe-gen/mcpe-gen/internal/checkup"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/check"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream"
)

func examine(t *testing.T, url string, o jetstream.Options, c jetstream.Checkup) *checkup.Report {
	t.Helper()
	if c.Lease == 0 {
		c.Lease = 30 * time.Second
	}
	r, err := jetstream.Examine(t.Context(), url, quiet(o), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// line returns the first line of a check whose finding contains the text.
func line(r *checkup.Report, check, found string) (l checkup.Line, ok bool) {
	for _, l := range r.Lines {
		if l.Check == check && strings.Contains(l.Found, found) {
			return l, true
		}
	}
	return l, false
}

func finds(t *testing.T, r *checkup.Report, state checkup.State, check, found string) {
	t.Helper()
	l, ok := line(r, check, found)
	if !ok || l.State != state || (l.Advice == "") != (state == checkup.OK) {
		t.Errorf("no line %s %s with %q among %+v", state, check, found, r.Lines)
	}
}

// JS-42: Examine reports healthy parts as such, finds the streams of a server, and writes nothing.
func TestExamine(t *testing.T) {
	name := space()
	o := jetstream.Options{Namespace: name}
	url := urls(cluster...)
	finds(t, examine(t, url, o, jetstream.Checkup{}), checkup.Warn, "streams", "stream "+strings.ToUpper(name)+"_S does not exist")
	s := open(t, url, o)
	if _, err := s.OpenLog(t.Context(), "a.b", store.LogOptions{MaxAge: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.OpenLog(t.Context(), "endless", store.LogOptions{}); err != nil {
		t.Fatal(err)
	}
	finds(t, examine(t, url, o, jetstream.Checkup{}), checkup.Warn, "lease", "0 live servers")
	if _, err := s.Join(t.Context(), "one", time.Minute, map[string]string{"a.b": "", "endless": ""}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Establish(t.Context(), "a.b", 2); err != nil {
		t.Fatal(err)
	}
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	j, err := js.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	last := func() uint64 {
		stream, err := j.Stream(t.Context(), strings.ToUpper(name)+"_S")
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().State.LastSeq
	}
	before := last()
	r := examine(t, url, o, jetstream.Checkup{})
	if after := last(); after != before {
		t.Errorf("the state went from %d to %d while it was examined", before, after)
	}
	if r.Failed > 0 {
		t.Errorf("%+v", r.Lines)
	}
	for _, c := range []struct {
		state        checkup.State
		check, found string
	}{{checkup.OK, "server", "cluster c"}, {checkup.OK, "rights", "servers need no further rights"}, {checkup.OK, "lease", "1 live servers, 0 expired leases"},
		{checkup.Warn, "shards", "2 of 2 have no owner: a.b"}, {checkup.Warn, "retention", "the log of endless has no limit"}, {checkup.OK, "generation", "secrets are not sealed"},
		{checkup.OK, "write", "a lease of 30s has time for"}, {checkup.OK, "clock", "the leader of"}, {checkup.Warn, "durability", "unknown: no server"}} {
		finds(t, r, c.state, c.check, c.found)
	}
	finds(t, examine(t, url, o, jetstream.Checkup{Lease: time.Hour}), checkup.Warn, "lease", "has")

	// While no server runs, somebody restores a stream and changes it.
	s.Close()
	putBack(t, url, strings.ToUpper(name)+"_L_a~b", 0)
	finds(t, examine(t, url, o, jetstream.Checkup{}), checkup.Fail, "stream", "was recreated or restored")
	stream, err := j.Stream(t.Context(), strings.ToUpper(name)+"_L_a~b")
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.Replicas = 1
	if _, err := j.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	finds(t, examine(t, url, o, jetstream.Checkup{}), checkup.Fail, "stream", "is on 1 servers, not on 3")
}

// JS-42: streams are examined even if no server runs, those of logs with entries and those next to the state.
func TestExamineStreams(t *testing.T) {
	o := jetstream.Options{Namespace: space(), Single: true, Poll: time.Hour}
	url := alone.ClientURL()
	s := open(t, url, o)
	l := check.OpenLog(t, s, "a.b", bounded)
	check.Add(t, l, 3)
	for range 2 {
		if err := s.Testify(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	_, j := raw(t, url)
	name := strings.ToUpper(o.Namespace) + "_L_a~b"
	if r := examine(t, url, o, jetstream.Checkup{}); r.Failed > 0 {
		t.Errorf("%+v", r.Lines)
	}
	config := check.Must(j.Stream(t.Context(), name))(t).CachedInfo().Config
	config.MaxMsgs = 5
	check.Must(j.UpdateStream(t.Context(), config))(t)
	finds(t, examine(t, url, o, jetstream.Checkup{}), checkup.Fail, "stream", name+" has MaxAge 0s and MaxMsgs 5")
	if err := j.DeleteStream(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	finds(t, examine(t, url, o, jetstream.Checkup{}), checkup.Fail, "stream", "stream "+name)
	o.Key = []byte("0123456789abcdef")
	finds(t, examine(t, url, o, jetstream.Checkup{}), checkup.Fail, "key", "the store was created without a key")
}

// JS-42: an account without JetStream has no streams to report.
func TestExamineNoJetStream(t *testing.T) {
	o := options(t.TempDir())
	account := server.NewAccount("other")
	o.Accounts, o.Users = []*server.Account{account}, []*server.User{{Username: "u", Password: "p", Account: account}}
	x := start(o)
	defer stop(x)
	r := examine(t, x.ClientURL(), jetstream.Options{Single: true, Connect: []nats.Option{nats.UserInfo("u", "p")}}, jetstream.Checkup{})
	finds(t, r, checkup.Fail, "account", "")
	if l, ok := line(r, "streams", "does not exist"); ok {
		t.Error(l)
	}
}

// JS-43: the servers' monitoring tells doctor and Open whether they sync to disk before they acknowledge.
func TestExamineDurability(t *testing.T) {
	for always, want := range map[bool]checkup.State{true: checkup.OK, false: checkup.Fail} {
		o := options(t.TempDir())
		o.SyncAlways, o.HTTPHost, o.HTTPPort = always, "127.0.0.1", -1
		s := start(o)
		defer stop(s)
		at := fmt.Sprintf("http://%s", s.MonitorAddr())
		asks := jetstream.Options{Single: true, Monitors: []string{at}}
		r := examine(t, s.ClientURL(), asks, jetstream.Checkup{})
		finds(t, r, want, "durability", at)
		finds(t, r, checkup.OK, "clock", at)
		opensDurable(t, s.ClientURL(), asks, always, at)
		gone := asks
		gone.Monitors = append(slices.Clone(gone.Monitors), "http://127.0.0.1:1")
		opensDurable(t, s.ClientURL(), gone, false, "http://127.0.0.1:1")
	}
	opensDurable(t, urls(cluster...), jetstream.Options{Namespace: space()}, false, "Options.Monitors is empty")
}

// opensDurable opens a store, which warns about a server by name unless it is well, and fails if RequireSync is set.
func opensDurable(t *testing.T, url string, o jetstream.Options, well bool, named string) {
	t.Helper()
	var said bytes.Buffer
	o.Logger = slog.New(slog.NewTextHandler(&said, nil))
	open(t, url, o)
	if warned := strings.Contains(said.String(), "a power failure may lose"); warned == well || !well && !strings.Contains(said.String(), named) {
		t.Errorf("well %v, said is %s", well, &said)
	}
	o.RequireSync = true
	s, err := jetstream.Open(t.Context(), url, quiet(o))
	if err == nil {
		s.Close()
	}
	if well != (err == nil) || !well && (!errors.Is(err, jetstream.ErrServer) || !strings.Contains(err.Error(), named)) {
		t.Errorf("with RequireSync: %v", err)
	}
}

// A slowDialer opens connections on which all that comes is late.
type slowDialer struct{}

func (slowDialer) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return slowConn{c}, err
}

type slowConn struct{ net.Conn }

func (c slowConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	time.Sleep(20 * time.Millisecond)
	return n, err
}

// JS-34, JS-42: a missing right is named.
func TestExamineRights(t *testing.T) {
	o := options(t.TempDir())
	o.Users = []*server.User{{Username: "all", Password: "p"}, {Username: "u", Password: "p", Permissions: &server.Permissions{
		Publish:   &server.SubjectPermission{Deny: []string{"mcpe.s.>", "$JS.API.STREAM.MSG.GET.*"}},
		Subscribe: &server.SubjectPermission{Deny: []string{"mcpe.t.>"}},
	}}}
	s := start(o)
	defer stop(s)
	store := open(t, s.ClientURL(), jetstream.Options{Single: true, Connect: []nats.Option{nats.UserInfo("all", "p")}})
	if _, err := store.Cluster(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The server is far away: a denial takes its time.
	r := examine(t, s.ClientURL(), jetstream.Options{Single: true, Connect: []nats.Option{nats.UserInfo("u", "p"), nats.SetCustomDialer(slowDialer{})}}, jetstream.Checkup{})
	for _, subject := range []string{"publish to mcpe.s.c.b.checkup", "publish to $JS.API.STREAM.MSG.GET.MCPE_S", "subscribe to mcpe.t.*.*"} {
		finds(t, r, checkup.Fail, "rights", subject)
	}
	if l, ok := line(r, "rights", "mcpe.l."); ok {
		t.Error(l)
	}
}
