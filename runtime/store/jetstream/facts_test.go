package jetstream_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/check"
)

// raw connects to JetStream without this package.
func raw(t *testing.T, url string) (*nats.Conn, natsjs.JetStream) {
	t.Helper()
	c, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	js, err := natsjs.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return c, js
}

// ask returns the sequence of the answer, and the code of its error. Servers learn of a new stream one after the
// other, so it repeats a request that no server answers.
func ask(t *testing.T, c *nats.Conn, m *nats.Msg) (sequence uint64, code int, text string) {
	var r *nats.Msg
	var err error
	eventually(t, "a server knows the stream", func() bool {
		r, err = c.RequestMsg(m, time.Minute)
		return !errors.Is(err, nats.ErrNoResponders)
	})
	if err != nil {
		t.Error(err)
		return 0, 0, ""
	}
	var a struct {
		Seq   uint64 `json:"seq"`
		Error struct {
			Code int    `json:"err_code"`
			Text string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(r.Data, &a); err != nil {
		t.Errorf("%s: %v", r.Data, err)
	}
	return a.Seq, a.Error.Code, a.Error.Text
}

func expecting(subject string, last int) *nats.Msg {
	m := nats.NewMsg(subject)
	m.Header.Set("Nats-Expected-Last-Subject-Sequence", fmt.Sprint(last))
	return m
}

// batch sends messages as one atomic batch and returns the answer to the last one.
func batch(t *testing.T, c *nats.Conn, messages ...*nats.Msg) (sequence uint64, code int, text string) {
	t.Helper()
	id := nats.NewInbox()
	for i, m := range messages {
		m.Header.Set("Nats-Batch-Id", id[len(id)-16:])
		m.Header.Set("Nats-Batch-Sequence", fmt.Sprint(i+1))
		if i == len(messages)-1 {
			m.Header.Set("Nats-Batch-Commit", "1")
			return ask(t, c, m)
		}
		if err := c.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	return 0, 0, ""
}

// direct requests messages from any server and returns their subjects, and the status after the last.
func direct(t *testing.T, c *nats.Conn, stream string, by map[string]any) (subjects []string, status string) {
	t.Helper()
	inbox := c.NewInbox()
	sub, err := c.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	body, err := json.Marshal(by)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, body); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := sub.NextMsg(20 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if status := m.Header.Get("Status"); status != "" {
			return subjects, status + " " + m.Header.Get("Description")
		}
		subjects = append(subjects, m.Header.Get("Nats-Subject"))
	}
}

// The package relies on these facts, and fails without them. TestPauses of the campaign measures with processes how
// long writes stall when a server ends.
func TestServerFacts(t *testing.T) {
	c, js := raw(t, urls(cluster...))
	stream := func(t *testing.T, config natsjs.StreamConfig) natsjs.Stream {
		t.Helper()
		config.Name, config.Replicas, config.AllowDirect = strings.ToUpper(space()), 3, true
		if len(config.Subjects) == 0 {
			config.Subjects = []string{strings.ToLower(config.Name) + ".>"}
		}
		s, err := js.CreateStream(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { js.DeleteStream(t.Context(), config.Name) })
		return s
	}
	subject := func(s natsjs.Stream, last string) string {
		return strings.ToLower(s.CachedInfo().Config.Name) + "." + last
	}
	t.Run("JS-2: an expectation of nothing is refused while something stands, takes no sequence, and holds again after an eviction", func(t *testing.T) {
		s := stream(t, natsjs.StreamConfig{MaxMsgs: 2})
		for i, want := range []struct {
			on             string
			last, seq, err int
		}{{"a", 0, 1, 0}, {"a", 0, 0, 10071}, {"a", 1, 2, 0}, {"b", 0, 3, 0}, {"b", 2, 0, 10071}, {"c", 0, 4, 0}, {"a", 0, 5, 0}} {
			seq, code, text := ask(t, c, expecting(subject(s, want.on), want.last))
			if int(seq) != want.seq || code != want.err {
				t.Fatalf("%d: sequence %d, error %d %s", i, seq, code, text)
			}
			if i == 1 && text != "wrong last sequence: 1" {
				t.Errorf("the refusal is %q", text)
			}
		}
	})
	t.Run("JS-4: of concurrent publishes of one subject one stands, and others may be undecided", func(t *testing.T) {
		s := stream(t, natsjs.StreamConfig{})
		var stood, refused, undecided atomic.Int32
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				switch seq, code, text := ask(t, c, expecting(subject(s, fmt.Sprint(i%5)), 0)); {
				case seq > 0:
					stood.Add(1)
				case code == 10071:
					refused.Add(1)
				case code == 10164:
					undecided.Add(1)
				default:
					t.Errorf("error %d %s", code, text)
				}
			})
		}
		wg.Wait()
		if stood.Load() != 5 {
			t.Errorf("%d stand, %d are refused, %d undecided", stood.Load(), refused.Load(), undecided.Load())
		}
	})
	t.Run("JS-22: a batch stands whole with consecutive sequences, each of it with an expectation that may name another subject, or leaves nothing", func(t *testing.T) {
		s := stream(t, natsjs.StreamConfig{AllowAtomicPublish: true})
		on := func(last string, n int, other string) *nats.Msg {
			m := expecting(subject(s, last), n)
			if other != "" {
				m.Header.Set("Nats-Expected-Last-Subject-Sequence-Subject", subject(s, other))
			}
			return m
		}
		ask(t, c, on("hold", 0, ""))
		for i, tc := range []struct {
			messages []*nats.Msg
			last     uint64
			fails    bool
		}{
			{[]*nats.Msg{on("touch", 1, "hold"), on("a", 0, ""), on("b", 0, "")}, 4, false},
			{[]*nats.Msg{on("touch", 1, "hold"), on("a", 3, ""), on("b", 7, "")}, 0, true}, // the sequence of the last message
			{[]*nats.Msg{on("touch", 9, "hold"), on("a", 3, ""), on("b", 4, "")}, 0, true},
			{[]*nats.Msg{on("c", 0, ""), on("d", 5, "c")}, 0, true},                         // a batch cannot expect a sequence that it writes itself
			{[]*nats.Msg{on("touch", 1, "hold"), on("a", 3, ""), on("b", 4, "")}, 7, false}, // no batch left anything
		} {
			last, code, text := batch(t, c, tc.messages...)
			if last != tc.last || code != 0 != tc.fails {
				t.Errorf("%d: last sequence %d, error %d %s", i, last, code, text)
			}
		}
		for _, tc := range []struct {
			n    int
			last uint64
		}{{1000, 1007}, {1001, 0}} {
			var many []*nats.Msg
			for range tc.n {
				many = append(many, nats.NewMsg(subject(s, "many")))
			}
			if last, code, text := batch(t, c, many...); last != tc.last || code == 0 != (tc.last > 0) {
				t.Errorf("a batch of %d: last sequence %d, error %d %s", tc.n, last, code, text)
			}
		}
	})
	t.Run("JS-28: a read of the last of more than 1,024 subjects fails as a whole, one by sequence has no such bound", func(t *testing.T) {
		s := stream(t, natsjs.StreamConfig{})
		const n = 1100
		var acks []natsjs.PubAckFuture
		for i := range n {
			acks = append(acks, check.Must(js.PublishAsync(subject(s, fmt.Sprintf("x.%04d", i)), nil))(t))
		}
		for _, a := range acks {
			select {
			case <-a.Ok():
			case err := <-a.Err():
				t.Fatal(err)
			}
		}
		name := s.CachedInfo().Config.Name
		eventually(t, "a server that has all of them refuses", func() bool { // a server that lags may know fewer
			found, status := direct(t, c, name, map[string]any{"multi_last": []string{subject(s, "x.*")}, "batch": 10})
			return len(found) == 0 && strings.HasPrefix(status, "413")
		})
		eventually(t, "a server that has all of them answers", func() bool {
			found, _ := direct(t, c, name, map[string]any{"seq": 1, "next_by_subj": subject(s, "x.*"), "batch": n})
			slices.Sort(found) // PublishAsync repeats a message that no server answered yet, and so stores it after others
			return len(slices.Compact(found)) == n
		})
	})
	t.Run("JS-9: the deletion of what is beyond every stream changes nothing", func(t *testing.T) {
		s := stream(t, natsjs.StreamConfig{})
		if seq, _, _ := ask(t, c, expecting(subject(s, "a"), 0)); seq != 1 {
			t.Fatal(seq)
		}
		m := nats.NewMsg("$JS.API.STREAM.MSG.DELETE." + s.CachedInfo().Config.Name)
		m.Data = []byte(`{"seq":4611686018427387904,"no_erase":true}`)
		if _, code, text := ask(t, c, m); code != 10057 {
			t.Fatalf("%d %s", code, text)
		}
		if seq, _, _ := ask(t, c, expecting(subject(s, "b"), 0)); seq != 2 {
			t.Fatalf("the next sequence is %d", seq)
		}
	})
	t.Run("JS-12: after a change of the subjects the old ones are nobody's, and what stands is found by them", func(t *testing.T) {
		s := stream(t, natsjs.StreamConfig{})
		old := subject(s, "a")
		ask(t, c, expecting(old, 0))
		config := s.CachedInfo().Config
		config.Subjects = []string{"new" + subject(s, ">")}
		s, err := js.UpdateStream(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "a publish on the old subject is refused at once", func() bool { // a server may not have heard of the change, and none answers
			m, err := c.RequestMsg(expecting(old, 1), time.Second)
			if err == nil {
				t.Fatalf("on the old subject: %s", m.Data)
			}
			return err == nats.ErrNoResponders
		})
		if m, err := s.GetLastMsgForSubject(t.Context(), old); err != nil || m.Sequence != 1 {
			t.Fatalf("%+v, %v", m, err)
		}
	})
	t.Run("JS-13: a stream that was made again has another raft group, one that was changed the same", func(t *testing.T) {
		s := stream(t, natsjs.StreamConfig{})
		config, was := s.CachedInfo().Config, s.CachedInfo().Cluster.RaftGroup
		config.MaxMsgs = 7
		s, err := js.UpdateStream(t.Context(), config)
		if err != nil || was == "" || s.CachedInfo().Cluster.RaftGroup != was {
			t.Fatalf("after an update: %+v, %v", s, err)
		}
		if err := js.DeleteStream(t.Context(), config.Name); err != nil {
			t.Fatal(err)
		}
		if s, err = js.CreateStream(t.Context(), config); err != nil || s.CachedInfo().Cluster.RaftGroup == was {
			t.Fatalf("made again: %v", err)
		}
	})
}

// heap returns the size of this process's heap after a collection.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The sizes that OpenLog warns about and docs/jetstream.md lists (JS-10): a server keeps each subject, and so each
// entry, in memory, and a stream on three servers takes memory and time of each. No parallel test may run at the same
// time, because this one reads the heap.
func TestServerSizes(t *testing.T) {
	t.Run("about 180 bytes a subject", func(t *testing.T) {
		o := options(t.TempDir())
		s := start(o)
		defer stop(s)
		_, js := raw(t, s.ClientURL())
		if _, err := js.CreateStream(t.Context(), natsjs.StreamConfig{Name: "SIZES", Subjects: []string{"sizes.>"}}); err != nil {
			t.Fatal(err)
		}
		const n = 20_000
		id := func(i int) string { // as in an entry
			sum := sha256.Sum256([]byte(fmt.Sprint(i)))
			return "sizes.log.0123456789abcdef." + hex.EncodeToString(sum[:16])
		}
		fill := func(from, to int) {
			for i := from; i < to; {
				var acks []natsjs.PubAckFuture
				for ; i < to && len(acks) < 1000; i++ {
					acks = append(acks, check.Must(js.PublishAsync(id(i), []byte("x")))(t))
				}
				for _, a := range acks {
					select {
					case <-a.Ok():
					case err := <-a.Err():
						t.Fatal(err)
					}
				}
			}
		}
		fill(0, 1000) // allocates the memory of the connections and the stream
		before := heap()
		fill(1000, 1000+n)
		least, most := int64(90), int64(270)
		var each int64
		eventually(t, "what is a cache is given back", func() bool {
			each = (heap() - before) / n
			return each <= most
		})
		t.Logf("%d bytes a subject", each)
		if each < least {
			t.Errorf("%d bytes a subject: docs/jetstream.md says about 180", each)
		}
	})
	t.Run("about 1 MB a stream, of three servers together", func(t *testing.T) {
		c, js := raw(t, urls(cluster...))
		prefix := strings.ToUpper(space()) + "_"
		const n = 20
		before := heap()
		began := time.Now()
		for i := range n {
			name := fmt.Sprint(prefix, i)
			if _, err := js.CreateStream(t.Context(), natsjs.StreamConfig{Name: name, Subjects: []string{name + ".>"}, Replicas: 3}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { js.DeleteStream(context.WithoutCancel(t.Context()), name) })
			if seq, code, text := ask(t, c, expecting(name+".x", 0)); seq != 1 {
				t.Fatalf("%s: error %d %s", name, code, text)
			}
		}
		took := time.Since(began) / n
		const most = 3 << 20
		var each int64
		eventually(t, "what is a cache is given back", func() bool {
			each = (heap() - before) / n
			return each <= most
		})
		t.Logf("%d kB a stream, made and written to in %v", each>>10, took)
		if each < 100<<10 {
			t.Errorf("%d kB a stream: docs/jetstream.md says about 1 MB", each>>10)
		}
	})
}
