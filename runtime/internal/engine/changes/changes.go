// Package changes keeps the names that commits have told, for engines that remember them in memory. Start with [New].
package changes

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
)

// MaxNames bounds the names that a List keeps, about 4 MB of keys. Marks before them are refused, whatever their age.
const MaxNames = 1 << 15

// A List holds the names of the latest commits, in their order. It is safe for concurrent use and starts no goroutines.
type List struct {
	mu    sync.Mutex
	life  string // begins each mark
	first uint64 // number of names[0], counted from the beginning of the life
	names []change
	bell  chan struct{} // closed at the next Tell, Reset or Wake; nil if nobody waits
}

// A change is a name with the time of the commit that told it.
type change struct {
	name string
	at   time.Time
}

// New returns an empty list.
func New() *List { return &List{life: rand.Text()} }

// Tell adds names, and wakes the callers of Wait.
func (l *List) Tell(names ...string) {
	if len(names) == 0 {
		return
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range names {
		l.names = append(l.names, change{n, now})
	}
	l.drop(max(len(l.names)-MaxNames, 0))
	l.ring()
}

// Reset begins a new life: it forgets all names and refuses the marks of before.
func (l *List) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.life, l.first, l.names = rand.Text(), 0, nil
	l.ring()
}

// Wake makes the callers of Wait call their check.
func (l *List) Wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ring()
}

func (l *List) ring() {
	if l.bell != nil {
		close(l.bell)
		l.bell = nil
	}
}

// drop removes the first n names, and further ones that are older than [engine.ChangesAge].
func (l *List) drop(n int) {
	oldest := time.Now().Add(-engine.ChangesAge)
	for n < len(l.names) && l.names[n].at.Before(oldest) {
		n++
	}
	clear(l.names[:n]) // the array keeps no dropped name until it is replaced
	l.names, l.first = l.names[n:], l.first+uint64(n)
}

// Since returns the names since a mark, and a channel that is closed when there may be more. Its errors match
// [engine.ErrCompacted].
func (l *List) Since(since engine.Mark) (c engine.Changed, more <-chan struct{}, err error) {
	c.AsOf = time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(0)
	end := l.first + uint64(len(l.names))
	c.Next = engine.Mark(l.life + "." + strconv.FormatUint(end, 10))
	if since != "" {
		life, number, _ := strings.Cut(string(since), ".")
		from, err := strconv.ParseUint(number, 10, 64)
		if err != nil || life != l.life || from < l.first || from > end {
			return engine.Changed{}, nil, engine.ErrCompacted
		}
		c.Names = unique(l.names[from-l.first:])
	}
	if l.bell == nil {
		l.bell = make(chan struct{})
	}
	return c, l.bell, nil
}

// unique returns each name once.
func unique(all []change) (names []string) {
	seen := make(map[string]struct{}, len(all))
	for _, c := range all {
		if _, twice := seen[c.name]; !twice {
			seen[c.name] = struct{}{}
			names = append(names, c.name)
		}
	}
	return names
}

// Wait implements [engine.Engine.Changes]. It calls check before each look, and returns its error.
func (l *List) Wait(ctx context.Context, since engine.Mark, wait time.Duration, check func() error) (engine.Changed, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for over := wait <= 0; ; {
		if err := check(); err != nil {
			return engine.Changed{}, err
		}
		c, more, err := l.Since(since)
		if err != nil || over || since == "" || len(c.Names) > 0 {
			return c, err
		}
		select {
		case <-more:
		case <-timer.C:
			over = true
		case <-ctx.Done():
			return engine.Changed{}, ctx.Err()
		}
	}
}
