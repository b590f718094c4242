package mcpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// A peer owns tasks. It is a connection, a session over HTTP, or a principal without sessions. Its support for MCPC is
// never shared with other peers (MCPC-SRV-2).
type peer struct {
	key        string
	connection string // for Send; "" over HTTP
	session    string // over HTTP, "" in the stateless era
	principal  string
	server     *mcp.ServerSession

	// Guarded by Adapter.mu.
	aware    bool   // it supports MCPC
	id       string // the last MCPC session that it named
	tasks    map[string]*runningTask
	forwards map[string]func() // by event type
	gone     bool
}

// isSession reports whether the peer is a connection or a session, which can end.
func (p *peer) isSession() bool { return p.connection != "" || p.session != "" }

// anonymousFactor is the ratio of the shared limit of all anonymous callers to the limit of a session.
const anonymousFactor = 16

// keyOf returns the key of a call's peer and the factor for the peer's limit.
func keyOf(c port.Caller) (key string, limit int) {
	switch {
	case c.Connection != "":
		return "connection " + c.Connection, 1
	case c.Session != "":
		return "session " + c.Session + " of " + c.Principal, 1
	case c.Principal != "":
		return "principal " + c.Principal, 1
	}
	return "nobody", anonymousFactor
}

// peerOf returns the peer of a call, creating it if needed. It returns nil after Shutdown.
func (a *Adapter) peerOf(c port.Caller) *peer {
	key, _ := keyOf(c)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shut {
		return nil
	}
	p := a.peers[key]
	if p != nil {
		return p
	}
	p = &peer{key: key, connection: c.Connection, session: c.Session, principal: c.Principal, server: c.ServerSession, id: wire.MCPCSession,
		tasks: map[string]*runningTask{}, forwards: map[string]func(){}}
	if p.connection != "" {
		p.session = ""
	}
	a.peers[key] = p
	if ss := c.ServerSession; ss != nil && p.isSession() {
		go func() { // the SDK's Wait cannot be abandoned
			_ = ss.Wait()
			a.endPeer(p)
		}()
	}
	return p
}

// errGone is the cancellation cause of a task whose session has ended.
var errGone = errors.New("the session has ended")

// endPeer cancels the tasks and forwards of a session that has ended.
func (a *Adapter) endPeer(p *peer) {
	a.mu.Lock()
	if a.peers[p.key] == p {
		delete(a.peers, p.key)
	}
	p.gone = true
	var stops []func()
	for _, r := range p.tasks {
		stops = append(stops, func() { r.cancel(errGone) })
	}
	for _, stop := range p.forwards {
		stops = append(stops, stop)
	}
	a.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
}

// cancelSessionTasks cancels the tasks of a session that its client wants to end. Otherwise, the session would wait for
// the tasks.
func (a *Adapter) cancelSessionTasks(session, principal string) {
	if session == "" {
		return
	}
	a.mu.Lock()
	p := a.peers["session "+session+" of "+principal]
	a.mu.Unlock()
	if p != nil {
		a.endPeer(p)
	}
}

// A Session identifies an MCPC client in calls to [SendEvent], [Adapter.CheckTask] and [Adapter.StopTask].
type Session struct {
	// ID is the id of the last MCPC session that the client specified, or "default".
	ID string
	// Principal is the authenticated principal, or "" for an anonymous client.
	Principal string

	key string
}

func (p *peer) asSession() Session { return Session{ID: p.id, Principal: p.principal, key: p.key} }

// Sessions returns the sessions that support MCPC and can receive server events.
func (a *Adapter) Sessions() []Session {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []Session
	for _, p := range a.peers {
		if p.aware && p.connection != "" {
			all = append(all, p.asSession())
		}
	}
	slices.SortFunc(all, func(x, y Session) int {
		return cmp.Or(strings.Compare(x.ID, y.ID), strings.Compare(x.key, y.key))
	})
	return all
}

// SessionOf returns the session of a request, for an author's tools that manage tasks. All callers without a principal
// over stateless HTTP share one session. Only secret task ids prevent them from accessing each other's tasks.
func (a *Adapter) SessionOf(ctx context.Context, req mcp.Request) Session {
	c := a.es.CallerOf(ctx, req)
	key, _ := keyOf(c)
	s := Session{ID: wire.MCPCSession, Principal: c.Principal, key: key}
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.peers[key]; p != nil {
		s.ID = p.id
	}
	return s
}

// A Status is the state of a running task. See MCPC-SRV-3.
type Status struct {
	Session  Session
	TaskID   string
	ToolName string
	Started  time.Time
	// Updates is the number of updates sent so far.
	Updates int
	// Stopping is true if the task's context has ended but the task is still running.
	Stopping bool
}

// CheckTask returns the status of a session's running task. It returns false if the session does not have a running
// task with that id, even if another session does.
func (a *Adapter) CheckTask(s Session, taskID string) (Status, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.peers[s.key]; p != nil {
		if r := p.tasks[taskID]; r != nil {
			return r.status(), true
		}
	}
	return Status{}, false
}

// StopTask cancels the context of a session's running task. It returns false if the session has no such task. The
// task's return value determines whether it completes or fails.
func (a *Adapter) StopTask(s Session, taskID string) bool {
	a.mu.Lock()
	var r *runningTask
	if p := a.peers[s.key]; p != nil {
		r = p.tasks[taskID]
	}
	a.mu.Unlock()
	if r == nil {
		return false
	}
	r.cancel(errStopped)
	return true
}

// Tasks returns the running tasks, oldest first.
func (a *Adapter) Tasks() []Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []Status
	for _, p := range a.peers {
		for _, r := range p.tasks {
			all = append(all, r.status())
		}
	}
	slices.SortFunc(all, func(x, y Status) int {
		return cmp.Or(x.Started.Compare(y.Started), strings.Compare(x.TaskID, y.TaskID))
	})
	return all
}

// addTask adds a task to its peer. It returns an error if the task cannot start, for example because the peer's limit
// is reached. The error can be shown to the caller.
func (a *Adapter) addTask(r *runningTask, limit int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := r.peer
	switch {
	case a.shut:
		return errShutdown
	case p.gone:
		return errGone
	case p.tasks[r.id] != nil:
		return fmt.Errorf("a task %q is running already", r.id)
	case len(p.tasks) >= limit*a.o.MaxTasks:
		return fmt.Errorf("too many tasks at once, at most %d", limit*a.o.MaxTasks)
	}
	p.tasks[r.id] = r
	p.id = r.session
	return nil
}

// removeTask removes a task from its peer. It also removes the peer if that was its last task and the peer is not a
// session.
func (a *Adapter) removeTask(r *runningTask) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := r.peer
	if p.tasks[r.id] == r {
		delete(p.tasks, r.id)
	}
	if len(p.tasks) == 0 && !p.isSession() && a.peers[p.key] == p {
		delete(a.peers, p.key)
		p.gone = true // a concurrent caller that has found it retries
	}
}
