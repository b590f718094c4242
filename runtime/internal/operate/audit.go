package operate

import (
	"cmp"
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
	// maxAuditText bounds a text of an entry, in bytes.
	maxAuditText = 1024
	// auditLook is how many entries one call looks at, auditBatch how many it reads at once.
	auditLook  = 10_000
	auditBatch = 500
	// noteTime bounds the noting of what nobody waits for.
	noteTime = 10 * time.Second
	// clocks is how far the clocks of processes may differ: entries are in order within it.
	clocks = time.Hour
)

// An auditLog is the log of what operators did, opened when it is needed first.
type auditLog struct {
	mu  sync.Mutex
	log store.EventLog
}

// audit opens the log. Nobody holds mu for longer than the store takes to open one.
func (a *Admin) audit(ctx context.Context) (store.EventLog, error) {
	a.noted.mu.Lock()
	defer a.noted.mu.Unlock()
	if a.noted.log == nil {
		log, err := a.o.Store.OpenLog(ctx, engine.AuditLog, store.LogOptions{MaxAge: engine.AuditAge, MaxCount: engine.MaxAudit})
		if err != nil {
			return nil, fmt.Errorf("opening the audit log: %w", err)
		}
		a.noted.log = log
	}
	return a.noted.log, nil
}

func (a *Admin) Note(ctx context.Context, e operator.AuditEntry) error {
	log, err := a.audit(ctx)
	if err != nil {
		return err
	}
	e.Position = 0
	for _, text := range []*string{&e.Actor, &e.Verb, &e.Subscription, &e.Connection, &e.Rejected, &e.Task, &e.Host, &e.Principal, &e.Event, &e.EventID,
		&e.Asked, &e.Key, &e.Outcome} {
		if len(*text) > maxAuditText {
			*text = strings.ToValidUTF8((*text)[:maxAuditText], "")
		}
	}
	data, err := json.Marshal(e)
	if err == nil {
		_, err = log.Append(ctx, store.Entry{EventID: "audit_" + rand.Text(), Timestamp: events.NewTime(e.At), Data: data})
	}
	return wrapped("noting what an operator did", err)
}

// noteEnd notes what a task came to, and why where it has ended early.
func (a *Admin) noteEnd(ctx context.Context, t *task, at time.Time, why string) {
	a.tasks.mu.Lock()
	done := t.Task
	a.tasks.mu.Unlock()
	how := "ended"
	if done.Cancelled {
		how = "cancelled"
	}
	e := operator.AuditEntry{At: at, Actor: done.Actor, Verb: string(done.Verb), Task: done.ID, Host: done.Filter.Host, Principal: done.Filter.Principal,
		Event: done.Filter.Event, Outcome: fmt.Sprintf("%s: %d of %d done, %d skipped, %d failed", how, done.Done, done.Total, done.Skipped, done.Failed)}
	if last := cmp.Or(why, done.Error); last != "" {
		e.Outcome += "; " + last
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	if err := a.Note(ctx, e); err != nil {
		a.o.Log.Internal(ctx, "noting the end of a task", err)
	}
}

func (a *Admin) Audit(ctx context.Context, f operator.AuditFilter, before store.Position, limit int) (found []operator.AuditEntry, next store.Position, err error) {
	log, err := a.audit(ctx)
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
	for left := auditLook; before > oldest && left > 0; {
		from := max(oldest, before-min(before, auditBatch)) - 1 // before the first one of the batch
		some, err := between(ctx, log, from, before-1)
		if err != nil {
			return nil, 0, fmt.Errorf("reading the audit log: %w", err)
		}
		for i := len(some) - 1; i >= 0; i-- {
			if !f.Takes(&some[i]) {
				if some[i].At.Before(f.Since.Add(-clocks)) {
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

// between reads the entries after a position and up to another one. What does not decode is passed over: somebody else
// wrote it.
func between(ctx context.Context, log store.EventLog, after, to store.Position) (list []operator.AuditEntry, err error) {
	for after < to {
		b, err := log.Read(ctx, after, int(to-after))
		if err != nil {
			return nil, err
		}
		if len(b.Entries) == 0 {
			break // evicted meanwhile
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
