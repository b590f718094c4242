package clients

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/draw"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/handled"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// endpoint is the URL path of every server.
const endpoint = "/mcp"

const (
	// maxRequest limits the size of a request, and readTime how long reading it may take. idleTime is how long a client
	// may keep a connection between two requests.
	maxRequest, readTime, idleTime = 1 << 20, 10 * time.Second, 5 * time.Minute
	// maxRequests is the number of requests after which a scene terminates the program. maxConns limits its
	// connections.
	maxRequests, maxConns = 400, 100
	// maxOutput limits how much of the program's output is retained.
	maxOutput = 4 << 20
)

// A clientCall is a request or notification from the client.
type clientCall struct {
	// arrived is the time of arrival, measured from the start of the scene.
	arrived time.Duration
	method  string
	// id is nil for a notification.
	id     json.RawMessage
	params map[string]json.RawMessage
	raw    []byte
	legacy bool // its revision has sessions

	// The stage's mutex guards the fields below. refused reports whether the request was rejected because of a header.
	refused bool
	// ended is the time at which the request was answered or abandoned. abandoned reports whether the client abandoned
	// it.
	ended     time.Duration
	done      bool
	abandoned bool
	failed    bool // the server failed it
}

// cursor returns the cursor in the params. It returns false if the cursor is null, absent or not a string.
func (a *clientCall) cursor() (text string, ok bool) {
	ok = a.hasCursor() && json.Unmarshal(a.params["cursor"], &text) == nil
	return text, ok
}

// hasCursor reports whether the params have a cursor of any type except null.
func (a *clientCall) hasCursor() bool {
	raw := a.params["cursor"]
	return len(raw) > 0 && string(raw) != "null"
}

// A reply answers a request.
type reply func(w http.ResponseWriter, r *http.Request)

// An entry is a position of the log. Its id is "" if no event occurred. form describes the event, and members are its
// JSON members without the cursor.
type entry struct{ cursor, id, form, members string }

// A stage plays a scene. It contains the scene's server, its event log and the client's requests.
type stage struct {
	scene
	run  *run
	url  string
	mode string
	draw *draw.Source
	// heartbeat is the interval between heartbeats.
	heartbeat time.Duration

	began time.Time
	over  chan struct{}
	once  sync.Once

	mu sync.Mutex
	// changed is closed and replaced whenever a field below changes.
	changed  chan struct{}
	asks     []*clientCall
	log      []entry
	origin   string // the cursor before the first entry
	known    map[string]int
	sessions map[string]string // the revision of each
	down     bool
	conns    map[net.Conn]bool
	flooded  bool
	odd      map[string]oddity
	hooks    map[string]*hook
	counts   map[string]int
	marks    map[string]time.Duration
	marked   map[string]int // the number of requests at each mark
	// spoiled contains the names of the responses that the scene made invalid. spoiledAt is the time of the last one.
	spoiled   []string
	spoiledAt time.Duration
	out       output
	diag      output

	// The fields below are set once the scene has ended. duration is the scene's duration.
	duration   time.Duration
	exited     string // how the program exited on its own, "" if it did not
	obeyed     bool   // it exited when asked to
	cutShort   bool
	unplayed   error // the reason if it was not played
	handledErr error
	taken      map[string]int
}

func newStage(r *run, sc scene) *stage {
	s := &stage{scene: sc, run: r, over: make(chan struct{}), changed: make(chan struct{}), known: map[string]int{},
		sessions: map[string]string{}, conns: map[net.Conn]bool{}, odd: map[string]oddity{}, hooks: map[string]*hook{},
		counts: map[string]int{}, marks: map[string]time.Duration{}, marked: map[string]int{}, taken: map[string]int{}, origin: newToken()}
	s.known[s.origin] = 0
	s.draw = r.source.For(sc.name)
	s.heartbeat = time.Duration(700+s.draw.For("heartbeat").IntN(600)) * time.Millisecond
	s.out.isEvent, s.diag.isEvent = s.isEvent, s.isEvent
	return s
}

// newToken returns an unguessable text. No token is a prefix of another.
func newToken() string { return rand.Text() }

// play plays the scene. It returns an error if the program cannot be started.
func (s *stage) play(ctx context.Context) error {
	s.mode = s.run.modeOf(s.scene)
	if ctx.Err() != nil {
		s.cutShort = true
		return nil
	}
	if !s.runsFirst {
		s.unplayed = s.run.lacksMode(s.mode)
		if s.unplayed == nil && s.mode == wire.ModeWebhook && !s.run.can(answersChallenge) {
			s.unplayed = verdict.Skipf("the callback of the client has answered no challenge")
		}
	}
	if s.unplayed != nil {
		return nil
	}
	l, url, err := s.run.rig.listen()
	if err != nil {
		return err
	}
	s.url, s.began = url, time.Now()
	playing, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	server := &http.Server{Handler: s, ConnState: s.connState, ReadTimeout: readTime, IdleTimeout: idleTime,
		BaseContext: func(net.Listener) context.Context { return playing }}
	beside.Go(func() { _ = server.Serve(l) })
	defer beside.Wait()
	defer server.Close()
	defer stop()
	program, err := s.run.rig.start(url, &s.out, &s.diag)
	if err != nil {
		return err
	}
	defer program.End()
	if s.background != nil {
		beside.Go(func() { s.background(playing, s) })
	}
	beside.Go(func() { s.deliver(playing) })
	s.wait(ctx, program)
	s.duration = s.now()
	s.readHandled(ctx)
	select {
	case <-program.Exited():
		s.exited = program.Status()
	default:
		s.obeyed = program.End()
	}
	s.cutShort = s.cutShort || ctx.Err() != nil
	return nil
}

// wait waits until the scene ends. A scene ends when it is complete, when its time has expired, or when the program
// exits or stops sending requests.
func (s *stage) wait(ctx context.Context, p program) {
	end := time.NewTimer(connectTime)
	defer end.Stop()
	limit := modeTime
	if s.capability == nowhere || s.acceptsHostile {
		limit = s.maxDuration
	}
	seen, asked := false, false
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		switch n := len(s.requestsOf(methodOf(s.mode))); {
		case !asked && n > 0:
			asked = true
			s.run.note(s.mode)
			end.Reset(s.run.patience(s.maxDuration))
		case !asked && !seen && len(s.requestsOf("")) > 0:
			seen = true
			s.run.noteDelay(s.now(), quickStart)
			end.Reset(s.run.patience(limit))
		}
		select {
		case <-changed:
		case <-s.over:
			return
		case <-p.Exited():
			return
		case <-end.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// readHandled reads the handled events until all events have been handled or the timeout expires.
func (s *stage) readHandled(ctx context.Context) {
	if s.run.o.Handled == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.run.patience(settleTime))
	defer cancel()
	for s.countHandled() && slices.ContainsFunc(s.entries(), func(e entry) bool { return s.taken[e.id] == 0 }) && sleep(ctx, 100*time.Millisecond) {
	}
	// Wait a little longer because a duplicate may follow.
	if s.handledErr == nil {
		sleep(ctx, 300*time.Millisecond)
		s.countHandled()
	}
}

// countHandled counts the lines for each event of this scene, and reports whether it could read them.
func (s *stage) countHandled() bool {
	lines := strings.Lines(s.out.String())
	if s.run.o.Handled != standardOutput {
		if lines, s.handledErr = handled.Lines(s.run.o.Handled); s.handledErr != nil {
			return false
		}
	}
	s.taken = map[string]int{}
	entries := s.entries()
	for line := range lines {
		counted := map[string]bool{}
		for _, e := range entries {
			if strings.Contains(line, e.id) && !counted[e.id] {
				s.taken[e.id]++
				counted[e.id] = true
			}
		}
	}
	return true
}

// entries returns the entries of the log that have events.
func (s *stage) entries() []entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.log), func(e entry) bool { return e.id == "" })
}

// finish ends the scene because it has received enough.
func (s *stage) finish() { s.once.Do(func() { close(s.over) }) }

// finishAfter ends the scene after d.
func (s *stage) finishAfter(ctx context.Context, d time.Duration) {
	if sleep(ctx, s.run.patience(d)) {
		s.finish()
	}
}

// sleep waits for d. It returns false if ctx is done first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// now returns the time since the scene began.
func (s *stage) now() time.Duration { return time.Since(s.began) }

// mark records the current time under a name, unless that name already has a time.
func (s *stage) mark(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.marks[what]; !ok {
		s.marks[what], s.marked[what] = s.now(), len(s.asks)
	}
	s.notifyLocked()
}

// requestsSince returns the requests of a method that arrived after a mark.
func (s *stage) requestsSince(mark, method string) (all []*clientCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.asks[s.marked[mark]:] {
		if a.method == method && !a.refused {
			all = append(all, a)
		}
	}
	return all
}

// markTime returns the time of a mark.
func (s *stage) markTime(what string) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.marks[what]
	return at, ok
}

// spoil records a response that the scene makes invalid.
func (s *stage) spoil(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spoiled, s.spoiledAt = append(s.spoiled, name), s.now()
	s.notifyLocked()
}

// isMarked returns a function that reports whether a mark has a time.
func (s *stage) isMarked(what string) func() bool {
	return func() bool {
		_, ok := s.markTime(what)
		return ok
	}
}

// notifyLocked wakes the goroutines that wait for a change. The caller holds the mutex.
func (s *stage) notifyLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// emit adds an event to the log and returns its eventId. addSilent adds a position without an event.
func (s *stage) emit() string {
	e := newEvent()
	s.addEvent(e, newToken())
	return e.id
}

func (s *stage) addSilent() { s.add(entry{cursor: newToken()}) }

// addEvent adds an event with its cursor to the log.
func (s *stage) addEvent(e *event, cursor string) {
	s.add(entry{cursor: cursor, id: e.id, form: e.form, members: e.members(s.draw.For(e.id))})
}

// add adds an entry to the log.
func (s *stage) add(e entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, e)
	s.known[e.cursor] = len(s.log)
	s.notifyLocked()
}

// head returns the last position in the log.
func (s *stage) head() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.log)
}

// entryAt returns the entry at a position, counted from 1, and a channel that is closed on the next change.
func (s *stage) entryAt(pos int) (e entry, ok bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pos > 0 && pos <= len(s.log) {
		return s.log[pos-1], true, s.changed
	}
	return entry{}, false, s.changed
}

// cursorAt returns the cursor of a position as JSON. Position 0 is before the first entry.
func (s *stage) cursorAt(pos int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replayless {
		return "null"
	}
	if pos == 0 {
		return quote(s.origin)
	}
	return quote(s.log[pos-1].cursor)
}

// startOf returns the position at which a request begins, which is that of its cursor or, without a cursor, the head.
// stale reports whether the server did not issue the cursor.
func (s *stage) startOf(a *clientCall) (pos int, stale bool) {
	text, ok := a.cursor()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !ok {
		return len(s.log), false
	}
	if pos, ok := s.known[text]; ok {
		return pos, false
	}
	if s.acceptsHostile {
		return 0, false // a cursor of hostileserver
	}
	s.noteOddity(unknownCursor, unknownCursor, a)
	return len(s.log), true
}

// positionOf returns the position of a request's cursor. It returns false if the server did not issue the cursor.
func (s *stage) positionOf(a *clientCall) (pos int, ok bool) {
	text, _ := a.cursor()
	s.mu.Lock()
	defer s.mu.Unlock()
	pos, ok = s.known[text]
	return pos, ok
}

// noteOddity records the first request with an oddity. The caller holds the mutex.
func (s *stage) noteOddity(what, got string, a *clientCall) {
	if _, ok := s.odd[what]; !ok {
		s.odd[what] = oddity{a, got}
	}
}

// requestsOf returns the requests of a method that were not rejected because of a header. If method is "", it returns
// all requests. Notifications are listed under their method names.
func (s *stage) requestsOf(method string) []*clientCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.asks), func(a *clientCall) bool { return method != "" && (a.method != method || a.refused) })
}

// nthRequest returns the nth request of a method, counted from 1, or nil.
func (s *stage) nthRequest(method string, n int) *clientCall {
	if all := s.requestsOf(method); len(all) >= n {
		return all[n-1]
	}
	return nil
}

// eventRequests returns the requests for events in the scene's mode.
func (s *stage) eventRequests() []*clientCall { return s.requestsOf(methodOf(s.mode)) }

// summary describes the scene for a report. It includes the client's requests, how its program exited, and its last
// output.
func (s *stage) summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "scene %q:", s.name)
	all := s.requestsOf("")
	for i, a := range all {
		if i == 12 && len(all) > 13 {
			fmt.Fprintf(&b, " … %d more", len(all)-i)
			break
		}
		fmt.Fprintf(&b, " %s at %.1f s;", a.method, a.arrived.Seconds())
	}
	return b.String() + s.exitSummary()
}

// exitSummary describes how the program exited, if it did, and its last output.
func (s *stage) exitSummary() string {
	text := ""
	if s.exited != "" {
		text = "; it ended: " + s.exited
	}
	last := s.diag.String()
	if last == "" {
		last = s.out.String()
	}
	if last = strings.TrimSpace(last); last != "" {
		text += "; it said " + last[max(0, len(last)-300):]
	}
	return text
}

// hasReported reports whether the program has printed something since the given time, or exited with an error.
func (s *stage) hasReported(since time.Duration) bool {
	return s.exited != "" && s.exited != "exit status 0" || s.out.since(s.began.Add(since)) || s.diag.since(s.began.Add(since))
}

// isEvent reports whether the text contains an eventId.
func (s *stage) isEvent(text []byte) bool {
	return slices.ContainsFunc(s.entries(), func(e entry) bool { return bytes.Contains(text, []byte(e.id)) })
}
