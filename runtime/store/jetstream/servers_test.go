package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/internal/testkit/freeport"
	"github.com/mcpe-gen/mcpe-gen/internal/testkit/testflag"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream"
)

var (
	alone   *server.Server   // without a cluster
	cluster []*server.Server // three
	spaces  atomic.Int64
)

func TestMain(m *testing.M) {
	testflag.Parallel(4) // tests of the cluster wait most of the time
	code := func() int {
		dir, err := os.MkdirTemp("", "jetstream")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		alone = start(options(dir + "/alone"))
		defer stop(alone)
		cluster = three(dir)
		defer stop(cluster...)
		stays(alone, 1)
		stays(cluster[0], len(cluster))
		return m.Run()
	}()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Println(err)
			code = 1
		}
	}
	os.Exit(code)
}

// stays creates a stream that no test deletes: a server that deletes the last stream removes the directories of all,
// even while the next stream is created there, which then fails.
func stays(s *server.Server, replicas int) {
	c, err := nats.Connect(s.ClientURL())
	if err != nil {
		panic(err)
	}
	defer c.Close()
	js, err := natsjs.New(c)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if _, err := js.CreateStream(ctx, natsjs.StreamConfig{Name: "STAYS", Subjects: []string{"stays"}, Replicas: replicas}); err != nil {
		panic(err)
	}
}

func options(dir string) *server.Options {
	return &server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true, MaxPayload: 8 << 20,
		JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 4 << 30}
}

// start starts a server in this process.
func start(o *server.Options) *server.Server {
	s, err := server.NewServer(o)
	if err != nil {
		panic(err)
	}
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		panic("the server does not start")
	}
	return s
}

func stop(servers ...*server.Server) {
	for _, s := range servers {
		s.Shutdown()
	}
	for _, s := range servers {
		s.WaitForShutdown()
	}
}

// three starts a cluster of three servers and waits for a leader.
func three(dir string) []*server.Server { return threeOf(dir, func(*server.Options) {}) }

// threeOf is like three with other options of the servers.
func threeOf(dir string, with func(*server.Options)) (all []*server.Server) {
	addrs, release, err := freeport.Reserve(3)
	if err != nil {
		panic(err)
	}
	release()
	var routes []*url.URL
	for _, addr := range addrs {
		routes = append(routes, &url.URL{Scheme: "nats", Host: addr})
	}
	for i, at := range routes {
		o := options(fmt.Sprint(dir, "/", i))
		o.ServerName, o.Routes = fmt.Sprint("n", i), routes
		with(o)
		o.Cluster = server.ClusterOpts{Name: "c", Host: at.Hostname()}
		fmt.Sscan(at.Port(), &o.Cluster.Port)
		s, err := server.NewServer(o)
		if err != nil {
			panic(err)
		}
		s.Start()
		all = append(all, s)
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		led, peers := false, 0
		for _, s := range all {
			led = led || s.JetStreamIsLeader()
			if s.JetStreamIsLeader() {
				peers = len(s.JetStreamClusterPeers())
			}
		}
		if led && peers == 3 {
			return all
		}
		if time.Now().After(end) {
			panic("no server leads the cluster")
		}
	}
}

func urls(servers ...*server.Server) string {
	var list []string
	for _, s := range servers {
		list = append(list, s.ClientURL())
	}
	return strings.Join(list, ",")
}

func quiet(o jetstream.Options) jetstream.Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return o
}

// space returns a namespace that no other test uses.
func space() string { return fmt.Sprint("t", spaces.Add(1)) }

func open(t *testing.T, url string, o jetstream.Options) *jetstream.Store {
	t.Helper()
	s, err := jetstream.Open(t.Context(), url, quiet(o))
	if err != nil {
		t.Fatal(err)
	}
	namespace := s.Namespace()
	opened.Lock()
	opened.by[namespace]++
	opened.Unlock()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		opened.Lock()
		opened.by[namespace]--
		last := opened.by[namespace] == 0
		opened.Unlock()
		if last && shared(namespace) {
			clears(t, url, namespace)
		}
	})
	return s
}

// opened counts the open stores of each namespace.
var opened = struct {
	sync.Mutex
	by map[string]int
}{by: map[string]int{}}

// shared reports whether space created the namespace, so that it is on the servers that all tests share.
func shared(namespace string) bool {
	_, err := strconv.Atoi(strings.TrimPrefix(namespace, "t"))
	return err == nil
}

// clears deletes the streams of a namespace that is not in use any more: each stream costs its servers heartbeats
// every second, and hundreds of them would leave a busy machine no time for the tests.
func clears(t *testing.T, url, namespace string) {
	c, err := nats.Connect(url)
	if err != nil {
		t.Log(err)
		return
	}
	defer c.Close()
	js, err := natsjs.New(c)
	if err != nil {
		t.Log(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	names := js.StreamNames(ctx)
	for name := range names.Name() {
		if strings.HasPrefix(name, strings.ToUpper(namespace)+"_") {
			err = errors.Join(err, js.DeleteStream(ctx, name))
		}
	}
	if err = errors.Join(err, names.Err()); err != nil {
		t.Log("streams are left:", err)
	}
}

// single opens a new store on the single server.
func single(t *testing.T) *jetstream.Store {
	t.Helper()
	return open(t, alone.ClientURL(), jetstream.Options{Namespace: space(), Single: true})
}

// replicated opens a new store on the cluster.
func replicated(t *testing.T) *jetstream.Store {
	t.Helper()
	return open(t, urls(cluster...), jetstream.Options{Namespace: space()})
}
