package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/callbacks"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// The child's orders are in these variables.
const (
	crashFile  = "MCPE_TEST_CRASH_FILE"  // of the store
	crashURL   = "MCPE_TEST_CRASH_URL"   // of the callback
	crashPoint = "MCPE_TEST_CRASH_POINT" // "append before 2": at the second append, before it
	crashFirst = "MCPE_TEST_CRASH_FIRST" // number of the first event to emit
)

// crashPoints lie between every two steps: append, match (read), send, acknowledge, settle,
// refresh. The receiver makes those named send and acknowledge. Each comes at its first, second or
// third time; with MCPE_TEST_CRASH_ALL set, at all three.
func crashPoints() []string {
	var points []string
	for _, step := range []string{"append before", "append after", "read before", "read after", "send at", "acknowledge at", "save before", "save after",
		"mark before", "mark after", "put before", "put after", "verification before", "verification after"} {
		for n := 1; n <= 3; n++ {
			if os.Getenv("MCPE_TEST_CRASH_ALL") != "" || n == 1+len(points)%3 {
				points = append(points, fmt.Sprint(step, " ", n))
				if os.Getenv("MCPE_TEST_CRASH_ALL") == "" {
					break
				}
			}
		}
	}
	return points
}

// A crasher kills the process at its point.
type crasher struct {
	op, side string
	n        int
	mu       sync.Mutex
}

func (c *crasher) at(op, side string) {
	if c.op != op || c.side != side {
		return
	}
	c.mu.Lock()
	c.n--
	hit := c.n == 0
	c.mu.Unlock()
	if hit {
		killSelf()
	}
}

type crashingStore struct {
	*sqlite.Store
	c *crasher
}

func (s *crashingStore) OpenLog(ctx context.Context, name string, o store.LogOptions) (store.EventLog, error) {
	l, err := s.Store.OpenLog(ctx, name, o)
	if name != "e" {
		return l, err
	}
	return &crashingLog{l, s.c}, err
}

func (s *crashingStore) SaveProgress(ctx context.Context, u []store.Update) error {
	s.c.at("save", "before")
	defer s.c.at("save", "after")
	return s.Store.SaveProgress(ctx, u)
}

func (s *crashingStore) SaveAttempts(ctx context.Context, u []store.Update, made [][]operator.Attempt) error {
	s.c.at("save", "before")
	defer s.c.at("save", "after")
	return s.Store.SaveAttempts(ctx, u, made)
}

func (s *crashingStore) SaveMark(ctx context.Context, log string, to store.Position) error {
	s.c.at("mark", "before")
	defer s.c.at("mark", "after")
	return s.Store.SaveMark(ctx, log, to)
}

func (s *crashingStore) PutSubscription(ctx context.Context, r store.Subscription) (uint64, error) {
	s.c.at("put", "before")
	defer s.c.at("put", "after")
	return s.Store.PutSubscription(ctx, r)
}

func (s *crashingStore) PutVerification(ctx context.Context, v store.Verification) error {
	s.c.at("verification", "before")
	defer s.c.at("verification", "after")
	return s.Store.PutVerification(ctx, v)
}

type crashingLog struct {
	store.EventLog
	c *crasher
}

func (l *crashingLog) Append(ctx context.Context, e store.Entry) (store.Position, error) {
	l.c.at("append", "before")
	defer l.c.at("append", "after")
	return l.EventLog.Append(ctx, e)
}

func (l *crashingLog) AppendOnce(ctx context.Context, e store.Entry, above store.Position) (store.Position, bool, error) {
	l.c.at("append", "before")
	defer l.c.at("append", "after")
	return l.EventLog.AppendOnce(ctx, e, above)
}

func (l *crashingLog) Read(ctx context.Context, after store.Position, limit int) (store.Batch, error) {
	l.c.at("read", "before")
	defer l.c.at("read", "after")
	return l.EventLog.Read(ctx, after, limit)
}

// TestCrashChild is the process that is killed: it serves, subscribes or refreshes, emits, and
// tells what was acknowledged to it.
func TestCrashChild(t *testing.T) {
	path := os.Getenv(crashFile)
	if path == "" {
		return // no child
	}
	c := &crasher{}
	fmt.Sscan(os.Getenv(crashPoint), &c.op, &c.side, &c.n)
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	url := os.Getenv(crashURL)
	origin := url[:strings.Index(url[8:], "/")+8]
	s, err := New(mcp.NewServer(&mcp.Implementation{Name: "crash", Version: "1"}, nil), Options{Store: &crashingStore{db, c},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Webhooks: webhooks.New(webhooks.Options{AllowNoExpiry: true, Callbacks: callbacks.Options{AllowOrigins: []string{origin}},
			Retry: webhooks.Retry{Schedule: []time.Duration{0, 50 * time.Millisecond, 100 * time.Millisecond, 100 * time.Millisecond}, FlushInterval: 20 * time.Millisecond}})})
	if err != nil {
		t.Fatal(err)
	}
	e, err := Register(s, incidentType("e"), Hooks[filterArgs, incident]{})
	if err != nil {
		t.Fatal(err)
	}
	p := fmt.Sprintf(`{"name":"e","ttlMs":null,"arguments":{"severity":"P1"},"delivery":{"mode":"webhook","url":%q,"secret":%q}}`, url, secretA)
	if _, err := s.inside().Call(t.Context(), port.Request{Method: wire.MethodSubscribe, Params: json.RawMessage(p), Principal: "alice", AfterReply: answered}); err != nil {
		t.Fatal(err)
	}
	fmt.Println("subscribed")
	first, _ := strconv.Atoi(os.Getenv(crashFirst))
	for i := first; i < first+6; i++ {
		severity := []string{"P1", "P1", "P2"}[i%3]
		id := fmt.Sprint(severity, "-", i)
		if err := e.Emit(t.Context(), incident{ID: id, Severity: severity}, events.WithID(id)); err != nil {
			t.Fatal(err)
		}
		fmt.Println("emitted", id)
		time.Sleep(10 * time.Millisecond) // deliveries go on between two emits, so that the crash finds some
	}
	time.Sleep(250 * time.Millisecond) // for the crash point to come; where it does not, the process ends here
	killSelf()
}

// killSelf ends this process as kill -9 does. It does not return.
func killSelf() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt) // without it and without cgo, the wait may be a deadlock that the runtime ends
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	<-end
}

// answered is the AfterReply of a carrier that has written the answer already.
func answered(func()) bool { return false }

// TestCrash kills a server between every two steps and starts it again on the same file: the union
// of the deliveries is all matching events, and what comes twice has one eventId (section 13,
// SUB-11, SRV-4, trap 1).
func TestCrash(t *testing.T) {
	if os.Getenv(crashFile) != "" {
		t.Skip("this process is the child")
	}
	points := crashPoints()
	if testing.Short() {
		points = points[:4]
	}
	var mu sync.Mutex
	var child *os.Process
	got := map[string]int{}
	countdown, when := 0, ""
	kill := func(at string) bool {
		if when != at {
			return false
		}
		if countdown--; countdown != 0 {
			return false
		}
		child.Kill()
		return true
	}
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			http.NotFound(w, r)
			return
		}
		var d delivered
		json.NewDecoder(r.Body).Decode(&d.body)
		if d.body.EventID == "" {
			answerChallenge(w, &d)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if kill("send") {
			return // taken, but never counted
		}
		if n := got[d.body.EventID]; n == 0 && strings.HasSuffix(d.body.EventID, "4") {
			got[d.body.EventID] = -1
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		got[d.body.EventID] = max(got[d.body.EventID], 0) + 1
		kill("acknowledge")
	}))
	defer hs.Close()

	path := filepath.Join(t.TempDir(), "events.db")
	subscribed := false
	var want []string
	run := func(point string, first int) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestCrashChild$", "-test.v")
		cmd.Env = append(os.Environ(), crashFile+"="+path, crashURL+"="+hs.URL+"/hook", crashPoint+"="+point, crashFirst+"="+fmt.Sprint(first))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = os.Stderr
		mu.Lock()
		if err := cmd.Start(); err != nil {
			mu.Unlock()
			t.Fatal(err)
		}
		child, when, countdown = cmd.Process, "", 0
		fmt.Sscanf(point, "%s at %d", &when, &countdown)
		mu.Unlock()
		var rest []string
		for lines := bufio.NewScanner(out); lines.Scan(); {
			switch line := lines.Text(); {
			case line == "subscribed":
				subscribed = true
			case strings.HasPrefix(line, "emitted "):
				if id := line[len("emitted "):]; subscribed && strings.HasPrefix(id, "P1") {
					want = append(want, id)
				}
			default:
				rest = append(rest, line)
			}
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("%s: the child ended by itself: %v\n%s", point, err, strings.Join(rest, "\n"))
		}
	}
	for i, point := range points {
		run(point, i*6)
	}
	missing := func() (ids []string) {
		mu.Lock()
		defer mu.Unlock()
		for _, id := range want {
			if got[id] < 1 {
				ids = append(ids, id)
			}
		}
		return ids
	}
	for i := range 5 {
		if len(missing()) == 0 && i > 0 {
			break
		}
		run("none", (len(points)+i)*6)
	}
	if ids := missing(); len(ids) > 0 || len(want) < len(points)/2 {
		t.Errorf("lost %q of %d", ids, len(want))
	}
	twice := 0
	for id, n := range got {
		if !strings.HasPrefix(id, "P1") {
			t.Errorf("%s does not match", id)
		}
		if n > 1 {
			twice++
		}
	}
	t.Logf("%d events in %d lives, %d of them delivered more than once", len(want), len(points), twice)
}
