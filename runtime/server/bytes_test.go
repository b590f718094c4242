package server

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// K12: what a type keeps in memory is bounded in bytes, by default too: 40 emits of 0.9 MB leave less than twice
// the bound of 16 MiB, with a subscriber too, and who has not read what is evicted is told so.
func TestRetentionInBytes(t *testing.T) {
	if o, err := (Retention{}).logOptions(false); o.MaxBytes != 64<<20 || err != nil {
		t.Errorf("by default %d bytes are kept, %v", o.MaxBytes, err)
	}
	s := newServer(t, Options{MaxPayload: 2 << 20, Retention: Retention{MaxBytes: 16 << 20}})
	typ := incidentType("e")
	typ.PayloadSchema = []byte(`{"type":"object"}`)
	e, err := Register(s, typ, Hooks[filterArgs, incident]{})
	if err != nil {
		t.Fatal(err)
	}
	start := pollFrom(t, s, nil, "").Cursor
	l := stream(t, s, `{"name":"e"}`)
	waitUntil(t, "active", func() bool { return len(l.frames()) > 0 })
	l.cancel()
	<-l.done
	text := make([]byte, 900_000)
	for i := range text {
		text[i] = 'a' + byte(rand.IntN(26))
	}
	heap := func() int {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	at := start
	for i := range 40 {
		emit(t, e, incident{ID: fmt.Sprint(i), Secret: string(text)})
		if i%2 == 0 { // and read, so that there are encoded forms
			at = pollFrom(t, s, at, "").Cursor
		}
	}
	if n := heap() - before; n > 32<<20 {
		t.Errorf("%d MiB are kept", n>>20)
	} else {
		t.Logf("%d MiB are kept", n>>20)
	}
	r := pollFrom(t, s, start, `,"maxEvents":1`)
	if !*r.Truncated || len(r.Events) != 1 || r.ids()[0] == "0" {
		t.Errorf("from the beginning: truncated %v, %v", *r.Truncated, r.ids())
	}
}

// K12: Retention.MaxBytes bounds a type, or none; with a durable store it is refused, and says why.
func TestRetentionMaxBytes(t *testing.T) {
	s := newServer(t, Options{Retention: Retention{MaxBytes: 50 << 10}})
	few := register(t, s, "few", Hooks[filterArgs, incident]{})
	all := register(t, s, "all", Hooks[filterArgs, incident]{}, WithRetention(Retention{MaxBytes: -1}))
	for i := range 300 {
		emit(t, few, incident{ID: fmt.Sprint(i, strings.Repeat("x", 200))})
		emit(t, all, incident{ID: fmt.Sprint(i, strings.Repeat("x", 200))})
	}
	for name, want := range map[string]bool{"few": true, "all": false} {
		oldest, head := s.types[name].topic.Bounds()
		if (oldest > 1) != want || head != 300 || want && (head-oldest > 200 || head-oldest < 40) {
			t.Errorf("%s keeps positions %d to %d", name, oldest, head)
		}
	}
	db, err := sqlite.Open(t.Context(), t.TempDir()+"/e.db", sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	durable := newServer(t, Options{Store: db})
	if _, err := Register(durable, incidentType("e"), Hooks[filterArgs, incident]{}, WithRetention(Retention{MaxBytes: 1000})); err == nil ||
		!strings.Contains(err.Error(), "Retention.MaxBytes is 1000") {
		t.Errorf("with a durable store: %v", err)
	}
}
