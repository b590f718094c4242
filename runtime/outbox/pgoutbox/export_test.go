package pgoutbox

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/outbox"
)

// LookBlocks returns the number of database blocks that the next look touches per range.
func (b *Outbox) LookBlocks(t testing.TB) float64 {
	t.Helper()
	ctx := context.Background()
	sql, args, ranges := b.table.Looking(outbox.GroupMax)
	var text []byte
	if err := b.pool.QueryRow(ctx, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql, args...).Scan(&text); err != nil {
		t.Fatal(err)
	}
	var plans []struct {
		Plan map[string]any
	}
	if err := json.Unmarshal(text, &plans); err != nil {
		t.Fatal(err)
	}
	p := plans[0].Plan
	return (p["Shared Hit Blocks"].(float64) + p["Shared Read Blocks"].(float64)) / float64(ranges)
}

// Queries returns how often a connection was used.
func (b *Outbox) Queries() int64 { return b.pool.Stat().AcquireCount() }

// EndAfter sets the time after which a hanging relay's transaction is ended.
func (b *Outbox) EndAfter(d time.Duration) { b.still = d }
