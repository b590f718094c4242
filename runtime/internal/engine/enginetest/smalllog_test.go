package enginetest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A smallLog has all entries that were ever appended. Retention only moves oldest.
type smallLog struct {
	id       uint64
	entries  []store.Entry
	at       []time.Time
	oldest   store.Position // the first retained one
	options  store.LogOptions
	appended map[*small]func([]store.Entry)
}

// An openLog is a log as a process has opened it in a life.
type openLog struct {
	e    *small
	l    *smallLog
	life uint64
}

func (e *small) OpenLog(ctx context.Context, name string, o store.LogOptions) (engine.Log, error) {
	if o.MaxBytes > 0 {
		return nil, fmt.Errorf("small: log %q: MaxBytes is not supported", name)
	}
	opened := &openLog{e: e}
	err := e.doInLife(ctx, func(s *smallStore) error {
		if s.logs[name] == nil {
			s.logs[name] = &smallLog{id: uint64(len(s.logs) + 1), oldest: 1, appended: map[*small]func([]store.Entry){}}
		}
		opened.l, opened.life = s.logs[name], s.life
		opened.l.options = o
		opened.l.appended[e] = o.Appended
		return nil
	})
	return opened, err
}

// do runs f as one step, in which retention has been applied.
func (o *openLog) do(ctx context.Context, f func(l *smallLog) error) error {
	return o.e.do(ctx, func(s *smallStore) error {
		if o.life != s.life {
			return engine.ErrNewLife
		}
		o.l.retain()
		return f(o.l)
	})
}

func (l *smallLog) head() store.Position { return store.Position(len(l.entries)) }

func (l *smallLog) retain() {
	if n := store.Position(l.options.MaxCount); n > 0 && l.head() > n {
		l.oldest = max(l.oldest, l.head()-n+1)
	}
	if age := l.options.MaxAge; age > 0 {
		for limit := time.Now().Add(-age); l.oldest <= l.head() && l.at[l.oldest-1].Before(limit); {
			l.oldest++
		}
	}
}

// find returns the last retained entry with the id and targets of an append, or nil.
func (l *smallLog) find(a engine.Append) *store.Entry {
	for p := l.head(); p >= l.oldest && p > a.Above; p-- {
		e := &l.entries[p-1]
		if e.EventID == a.Entry.EventID && store.Audience(e.Targets) == store.Audience(a.Entry.Targets) {
			return e
		}
	}
	return nil
}

func (o *openLog) Append(ctx context.Context, group ...engine.Append) (done []engine.Appended, err error) {
	if err := engine.CheckGroup(group); err != nil {
		return nil, err
	}
	err = o.do(ctx, func(l *smallLog) error {
		before := len(l.entries)
		for _, a := range group {
			if e := l.find(a); a.Once && e != nil {
				done = append(done, engine.Appended{Position: e.Position, Err: store.Repeats(e.Position, e.Data, a.Entry.Data)})
				continue
			}
			a.Entry.Position = l.head() + 1
			l.entries, l.at = append(l.entries, a.Entry), append(l.at, time.Now())
			done = append(done, engine.Appended{Position: a.Entry.Position, Fresh: true})
		}
		l.retain()
		fresh := l.entries[before:]
		for e, appended := range l.appended {
			if appended != nil && len(fresh) > 0 && e.life == e.s.life {
				appended(fresh)
			}
		}
		return nil
	})
	return done, err
}

// maxRead bounds the bytes of data of a Read.
const maxRead = 8 << 20

func (o *openLog) Read(ctx context.Context, after store.Position, limit int) (b store.Batch, err error) {
	err = o.do(ctx, func(l *smallLog) error {
		b = store.Batch{Oldest: l.oldest, Head: l.head()}
		if after >= l.head() {
			return nil
		}
		b.Gap = after+1 < l.oldest
		for p, size := max(after+1, l.oldest), 0; p <= l.head() && len(b.Entries) < limit; p++ {
			e := l.entries[p-1]
			if size += len(e.Data); size > maxRead && len(b.Entries) > 0 {
				break
			}
			b.Entries = append(b.Entries, e)
		}
		return nil
	})
	return b, err
}

func (o *openLog) Bounds(ctx context.Context) (oldest, head store.Position, err error) {
	err = o.do(ctx, func(l *smallLog) error {
		oldest, head = l.oldest, l.head()
		return nil
	})
	return oldest, head, err
}

// CatchUp has nothing to wait for: each Append calls the Appended of all processes.
func (o *openLog) CatchUp(ctx context.Context, _ store.Position) (store.Position, error) {
	_, head, err := o.Bounds(ctx)
	return head, err
}

func (o *openLog) Seen() time.Time { return time.Now() }

func (o *openLog) Proof(ctx context.Context, p store.Position) (proof uint32, err error) {
	err = o.do(ctx, func(l *smallLog) error {
		if p > 0 && p <= l.head() && p+1 >= l.oldest { // with the last evicted one
			proof = l.entries[p-1].Proof()
		}
		return nil
	})
	return proof, err
}

// Epoch differs between logs and between lives.
func (o *openLog) Epoch() uint64 { return o.life<<32 | o.l.id }
