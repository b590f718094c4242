package orders

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// CUR-8, REP-13: a reopened control log continues after the last order read, because a new epoch already has orders
// by then.
func TestCUR8OrdersBeforeReopening(t *testing.T) {
	st := memory.New()
	log, err := st.OpenLog(t.Context(), engine.ControlLog, store.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	const n = 2*maxBefore + 10
	for i := range n { // a second apart, the last one now
		e := store.Entry{EventID: fmt.Sprint(i), Timestamp: events.NewTime(now.Add(time.Duration(i-n+1) * time.Second)), Data: json.RawMessage(`{}`)}
		if _, err := log.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	for ago, want := range map[time.Duration]store.Position{
		-time.Second: n, 0: n - 1, 3 * time.Second: n - 4, 3500 * time.Millisecond: n - 4,
		time.Hour: n - maxBefore, // no further back; missed makes up for the rest
	} {
		if got, err := positionBefore(t.Context(), log, n, now.Add(-ago)); got != want || err != nil {
			t.Errorf("%v ago: %d, %v; want %d", ago, got, err, want)
		}
	}
	if got, err := positionBefore(t.Context(), log, 0, now); got != 0 || err != nil {
		t.Errorf("an empty log: %d, %v", got, err)
	}
}
