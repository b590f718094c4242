package operate

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// maxAuditText is the maximum size of each text field of an entry, in bytes.
	maxAuditText = 1024
	// maxAuditScan is the maximum number of entries that one call examines.
	maxAuditScan = 10_000
	// auditBatch is the number of entries per read.
	auditBatch = 500
	// maxClockSkew is the tolerated difference between the clocks of processes. The times of entries can be out of
	// order by up to this difference.
	maxClockSkew = time.Hour
)

// An auditStore holds the log of operator actions, which is opened on first use.
type auditStore struct {
	mu  sync.Mutex
	log store.EventLog
}

// openAuditLog returns the log of operator actions, which it opens on first use.
func (a *Admin) openAuditLog(ctx context.Context) (store.EventLog, error) {
	a.auditLog.mu.Lock()
	defer a.auditLog.mu.Unlock()
	if a.auditLog.log == nil {
		log, err := a.o.Store.OpenLog(ctx, engine.AuditLog, store.LogOptions{MaxAge: engine.AuditAge, MaxCount: engine.MaxAudit})
		if err != nil {
			return nil, fmt.Errorf("opening the audit log: %w", err)
		}
		a.auditLog.log = log
	}
	return a.auditLog.log, nil
}

func (a *Admin) Note(ctx context.Context, e operator.AuditEntry) error {
	log, err := a.openAuditLog(ctx)
	if err != nil {
		return err
	}
	e.Position = 0
	for _, text := range []*string{&e.Actor, &e.Verb, &e.Subscription, &e.Connection, &e.Rejected, &e.Principal, &e.Event, &e.EventID,
		&e.Asked, &e.Key, &e.Outcome} {
		if len(*text) > maxAuditText {
			*text = strings.ToValidUTF8((*text)[:maxAuditText], "")
		}
	}
	data, err := json.Marshal(e)
	if err == nil {
		_, err = log.Append(ctx, store.Entry{EventID: "audit_" + rand.Text(), Timestamp: events.NewTime(e.At), Data: data})
	}
	return wrapError("noting what an operator did", err)
}

func (a *Admin) Audit(ctx context.Context, f operator.AuditFilter, before store.Position, limit int) (found []operator.AuditEntry, next store.Position, err error) {
	log, err := a.openAuditLog(ctx)
	if err != nil {
		return nil, 0, err
	}
	oldest, head, err := log.Bounds(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("reading the audit log: %w", err)
	}
	if before == 0 || before > head {
		before = head + 1
	}
	limit = max(limit, 1)
	for left := maxAuditScan; before > oldest && left > 0; {
		from := max(oldest, before-min(before, auditBatch)) - 1 // before the first entry of the batch
		some, err := readBetween(ctx, log, from, before-1)
		if err != nil {
			return nil, 0, fmt.Errorf("reading the audit log: %w", err)
		}
		for i := len(some) - 1; i >= 0; i-- {
			if !f.Takes(&some[i]) {
				if some[i].At.Before(f.Since.Add(-maxClockSkew)) {
					return found, 0, nil
				}
				continue
			}
			found = append(found, some[i])
			if p := some[i].Position; len(found) == limit && p > oldest {
				return found, p, nil
			}
		}
		left -= int(before - 1 - from)
		before = from + 1
	}
	if before > oldest {
		next = before
	}
	return found, next, nil
}

// readBetween reads the entries after the position after, up to and including the position to. It skips entries that it
// cannot decode, because they were written by other software.
func readBetween(ctx context.Context, log store.EventLog, after, to store.Position) (list []operator.AuditEntry, err error) {
	for after < to {
		b, err := log.Read(ctx, after, int(to-after))
		if err != nil {
			return nil, err
		}
		if len(b.Entries) == 0 {
			break // evicted in the meantime
		}
		for i := range b.Entries {
			var e operator.AuditEntry
			if json.Unmarshal(b.Entries[i].Data, &e) == nil && b.Entries[i].Position <= to {
				e.Position = b.Entries[i].Position
				list = append(list, e)
			}
		}
		after = b.Entries[len(b.Entries)-1].Position
	}
	return list, nil
}
