package ledger

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// idle returns the n-th subscription of a server with many, as a subscribe makes it.
func idle(n int) Subscription {
	at := time.Unix(1_800_000_000, int64(n))
	return Subscription{
		ID: fmt.Sprintf("sub_%032x", n), Principal: fmt.Sprintf("user-%06d@example.com", n/4), URL: fmt.Sprintf("https://receiver.example/hooks/%06d", n),
		Shard: Shard{Topic: "incident.created", Number: n % 16}, Generation: uint64(n) + 1, Schema: fmt.Sprintf("%032x", 7),
		Arguments: json.RawMessage(`{"severity":"P1"}`), Secrets: []store.Secret{{Key: make([]byte, 32)}},
		CreatedAt: at, RefreshedAt: at, ExpiresAt: at.Add(time.Hour), NotBefore: at,
	}
}

func admitted(b testing.TB, l *Ledger, from, n int) {
	b.Helper()
	for i := from; i < from+n; i++ {
		if _, err := l.Admit(b.Context(), idle(i), store.Progress{Epoch: 7}, Quota{Own: 100, All: 10_000_000}); err != nil {
			b.Fatal(err)
		}
	}
}

// An idle subscription costs little memory: its records, the key and node of each, and its part of the counters.
func TestMemoryOfSubscriptions(t *testing.T) {
	l := opened(t, memory.New(), Options{})
	admitted(t, l, 0, 1000) // the counters of all
	const n, most = 20_000, 2400
	before := heap()
	admitted(t, l, 1000, n)
	per := (int(heap()) - int(before)) / n
	t.Logf("%d bytes per subscription", per)
	if per > most {
		t.Errorf("a subscription takes %d bytes, more than %d", per, most)
	}
	runtime.KeepAlive(l)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC() // what the first one has swept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkAdmit(b *testing.B) {
	l, err := Open(b.Context(), memory.New(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	admitted(b, l, 0, b.N)
}

// BenchmarkSaveProgress stores the progress of 64 subscriptions in each call.
func BenchmarkSaveProgress(b *testing.B) {
	l, err := Open(b.Context(), memory.New(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := l.Establish(b.Context(), "incident.created", 16); err != nil {
		b.Fatal(err)
	}
	lease, err := l.Join(b.Context(), Member{TTL: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	won, err := lease.Claim(b.Context(), Hold{Shard: Shard{Topic: "incident.created"}})
	if err != nil || len(won) != 1 {
		b.Fatal(won, err)
	}
	o := l.Own(won[0])
	var updates []Update
	for i := range 64 {
		admitted(b, l, 16*i, 1)
		updates = append(updates, Update{ID: idle(16 * i).ID, Status: Status{Generation: idle(16 * i).Generation}})
	}
	b.ReportAllocs()
	for at := store.Position(1); b.Loop(); at++ {
		if _, err := o.SaveProgress(b.Context(), updates, &Checkpoint{Epoch: 7, Position: at}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTakeOver reads 10,000 subscriptions of a shard.
func BenchmarkTakeOver(b *testing.B) {
	l, err := Open(b.Context(), memory.New(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 10_000 {
		admitted(b, l, 16*i, 1)
	}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		err := l.Own(Hold{Shard: Shard{Topic: "incident.created"}}).Each(b.Context(), func(states []State) error {
			n += len(states)
			return nil
		})
		if err != nil || n != 10_000 {
			b.Fatal(n, err)
		}
	}
}
