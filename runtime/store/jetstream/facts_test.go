package jetstream_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
)

// raw is a connection and JetStream without this package.
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

// ask returns the answer's sequence, and the code of its error.
func ask(t *testing.T, c *nats.Conn, m *nats.Msg) (sequence uint64, code int, text string) {
	r, err := c.RequestMsg(m, 5*time.Second)
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

// What the package rests on (F1, F2, F5 to F7 and F10 of its design). It falls with them.
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
		if _, err := c.RequestMsg(expecting(old, 1), 5*time.Second); err != nats.ErrNoResponders {
			t.Fatalf("on the old subject: %v", err)
		}
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
