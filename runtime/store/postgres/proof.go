package postgres

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// An anchor is an entry that was delivered to readers. If it no longer exists, the database was restored to an older
// state.
type anchor struct {
	position store.Position
	proof    uint32 // 0 when unknown
}

// lastDelivered returns the last entry that was delivered to readers. The caller must hold l.mu.
func (l *Log) lastDelivered() anchor {
	if tail := l.tail.All(); len(tail) > 0 {
		return anchor{l.head, tail[len(tail)-1].Proof()}
	}
	if l.anchor.position == l.head {
		return l.anchor
	}
	return anchor{position: l.head}
}

// Proof implements [store.EventLog]. If the entry is not in memory, concurrent calls share a headQuery.
func (l *Log) Proof(ctx context.Context, p store.Position) (uint32, error) {
	if err := l.checkOpen(ctx); err != nil {
		return 0, err
	}
	l.mu.Lock()
	tail := l.tail.All()
	switch first := l.head - store.Position(len(tail)) + 1; {
	case p == 0 || p > math.MaxInt64:
		l.mu.Unlock()
		return 0, nil
	case p >= first && p <= l.head:
		e := tail[p-first]
		l.mu.Unlock()
		return e.Proof(), nil
	case p == l.anchor.position && l.anchor.proof != 0:
		defer l.mu.Unlock()
		return l.anchor.proof, nil
	}
	r, begins := l.joinQuery()
	r.proofs[p] = 0
	l.mu.Unlock()
	if err := l.waitFor(ctx, r, begins); err != nil {
		return 0, err
	}
	return r.proofs[p], nil
}

// prove sets the proof of each position in found.
func (l *Log) prove(ctx context.Context, found map[store.Position]uint32) error {
	positions := make([]int64, 0, len(found))
	for p := range found {
		positions = append(positions, int64(p))
	}
	return l.s.query(ctx, func(r pgx.CollectableRow) error {
		var position, proof int64
		err := r.Scan(&position, &proof)
		found[store.Position(position)] = uint32(proof)
		return err
	}, `SELECT position, @.proof(event_id, timestamp, data) FROM @.entries WHERE log = $1 AND position = ANY ($2)
		UNION ALL SELECT kept, kept_proof FROM @.logs WHERE id = $1 AND kept = ANY ($2)`, l.id, positions)
}
