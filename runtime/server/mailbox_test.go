package server

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
)

// mailbox is an upstream: items in order, a cursor is how many are passed.
type mailbox struct {
	mu    sync.Mutex
	items map[string][]events.Item[incident] // by principal
	page  int                                // largest page, 0 for all
	fail  error
	asked []string // "principal/cursor"
	extra func(*events.Page[incident])
}

func (m *mailbox) put(principal string, items ...events.Item[incident]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.items == nil {
		m.items = map[string][]events.Item[incident]{}
	}
	m.items[principal] = append(m.items[principal], items...)
}

func (m *mailbox) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

func (m *mailbox) questions() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked)
}

func (m *mailbox) check(ctx context.Context, a filterArgs, cursor string) (events.Page[incident], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	who := hook.Principal(ctx)
	m.asked = append(m.asked, who+"/"+cursor)
	if m.fail != nil {
		return events.Page[incident]{}, m.fail
	}
	all := m.items[who]
	if cursor == "" {
		return events.Page[incident]{Cursor: strconv.Itoa(len(all))}, nil
	}
	n, err := strconv.Atoi(cursor)
	if err != nil || n > len(all) {
		return events.Page[incident]{Cursor: strconv.Itoa(len(all)), Truncated: true}, nil
	}
	to := len(all)
	if m.page > 0 {
		to = min(to, n+m.page)
	}
	p := events.Page[incident]{Items: all[n:to], Cursor: strconv.Itoa(to), HasMore: to < len(all)}
	if m.extra != nil {
		m.extra(&p)
	}
	return p, nil
}

func mail(id string) events.Item[incident] {
	return events.Item[incident]{ID: id, Timestamp: time.Now(), Data: incident{ID: id}}
}

func registerMailbox(t testing.TB, s *Server, m *mailbox, o ...TypeOption) {
	t.Helper()
	if err := RegisterCheck(s, incidentType("e"), m.check, Hooks[filterArgs, incident]{}, o...); err != nil {
		t.Fatal(err)
	}
}
