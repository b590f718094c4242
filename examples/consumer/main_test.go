package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/incidents"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/incidents/incidentsserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// patience is how long anything may take before the test fails.
const patience = 90 * time.Second

// await waits until done, and fails with what it waits for otherwise.
func await(t *testing.T, what func() string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waits for ", what())
		}
	}
}

// A desk is the server: it keeps its events in a file and comes back at its address.
type desk struct {
	t       *testing.T
	db      string
	address string

	es      *server.Server
	created *incidentsserver.IncidentCreatedEmitter
	updated *incidentsserver.IncidentUpdatedEmitter
	digest  *incidentsserver.IncidentDigestEmitter
	stop    func()

	mu        sync.Mutex
	followers int
}

func (d *desk) start() {
	d.t.Helper()
	ctx := context.Background()
	log, err := sqlite.Open(ctx, d.db, sqlite.Options{})
	if err != nil {
		d.t.Fatal(err)
	}
	srv := mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1"}, nil)
	d.es, err = server.New(srv, server.Options{Store: log, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		d.t.Fatal(err)
	}
	var failed [3]error
	d.created, failed[0] = incidentsserver.RegisterIncidentCreated(d.es, incidentsserver.IncidentCreatedHooks{
		OnSubscribe: func(context.Context, server.Subscription, *incidents.IncidentCreatedArguments) error {
			return d.follow(1)
		}})
	d.updated, failed[1] = incidentsserver.RegisterIncidentUpdated(d.es, incidentsserver.IncidentUpdatedHooks{
		OnSubscribe: func(context.Context, server.Subscription, *incidents.IncidentUpdatedArguments) error {
			return d.follow(1)
		}})
	d.digest, failed[2] = incidentsserver.RegisterIncidentDigest(d.es, incidentsserver.IncidentDigestHooks{
		OnSubscribe: func(context.Context, server.Subscription, *incidents.IncidentDigestArguments) error {
			return d.follow(1)
		}})
	if err := errors.Join(failed[:]...); err != nil {
		d.t.Fatal(err)
	}
	ln, err := net.Listen("tcp", d.address)
	if err != nil {
		d.t.Fatal(err)
	}
	d.address = ln.Addr().String()
	web := &http.Server{Handler: transport.NewHandler(d.es, transport.HandlerOptions{}), ReadTimeout: 30 * time.Second}
	go web.Serve(ln)
	d.stop = func() {
		if err := errors.Join(d.es.Shutdown(ctx), web.Shutdown(ctx), log.Close()); err != nil {
			d.t.Error(err)
		}
	}
}

// follow counts subscriptions since the server was started or asked last.
func (d *desk) follow(n int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.followers += n
	return nil
}

// emitted are the events by id: for those of incident.updated the incident, for others "".
type emitted map[string]string

// emit has so many incidents begin, change and be told of. What has happened is added to all, and the last change of
// each incident to last.
func (d *desk) emit(from, to int, all emitted, last map[string]string) {
	d.t.Helper()
	ctx, at := context.Background(), events.NewTime(time.Now().UTC())
	for n := from; n < to; n++ {
		incident := fmt.Sprint("INC-", n%10)
		created, updated, digest := fmt.Sprint("created-", n), fmt.Sprint("updated-", n), fmt.Sprint("digest-", n)
		err := d.created.Emit(ctx, incidents.IncidentCreatedPayload{IncidentID: fmt.Sprint("INC-1", n), Severity: incidents.SeverityP1, OpenedAt: at}, events.WithID(created))
		all[created] = ""
		for i := range 3 {
			id := fmt.Sprint(updated, "-", i)
			note := incidents.Update{Value: &incidents.NoteAdded{NoteID: id}}
			err = errors.Join(err, d.updated.Emit(ctx, incidents.IncidentUpdatedPayload{IncidentID: incident, Update: note, At: at}, events.WithID(id)))
			all[id], last[incident] = incident, id
		}
		if n%5 == 0 {
			err = errors.Join(err, d.digest.Emit(ctx, incidents.IncidentDigestPayload{Open: map[string]int64{"P1": int64(n)}}, events.WithID(digest)))
			all[digest] = ""
		}
		if err != nil {
			d.t.Fatal(err)
		}
	}
}

// A pagerServer is what the handlers call.
type pagerServer struct {
	*httptest.Server

	mu      sync.Mutex
	calls   int
	texts   map[string][]string // by key
	held    int                 // how many calls it answers before it hangs; 0 means all
	poison  string              // the key that it refuses
	refused int
}

func newPager(t *testing.T) *pagerServer {
	p := &pagerServer{texts: map[string][]string{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, text := r.FormValue("key"), r.FormValue("text")
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.held > 0 && p.calls >= p.held {
			p.mu.Unlock()
			<-r.Context().Done()
			p.mu.Lock()
			return
		}
		if key == p.poison {
			p.refused++
			http.Error(w, "no such thing", http.StatusInternalServerError)
			return
		}
		p.calls++
		p.texts[key] = append(p.texts[key], text)
	}))
	t.Cleanup(p.Close)
	return p
}

// seen returns what was called for until now.
func (p *pagerServer) seen() (calls, refused int, texts map[string][]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls, p.refused, maps.Clone(p.texts)
}

// set says what it hangs behind and what it refuses.
func (p *pagerServer) set(held int, poison string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held, p.poison = held, poison
}

// A program is the consumer as its users run it.
type program struct {
	*exec.Cmd
	said  bytes.Buffer
	ended chan error
}

func (d *desk) consumer(binary, dir string, pager *pagerServer) *program {
	d.t.Helper()
	d.mu.Lock()
	d.followers = 0
	d.mu.Unlock()
	p := &program{Cmd: exec.Command(binary), ended: make(chan error, 1)}
	p.Dir, p.Stderr = dir, &p.said
	p.Env = append(os.Environ(), "MCP_URL=http://"+d.address, "PAGER_URL="+pager.URL)
	if err := p.Start(); err != nil {
		d.t.Fatal(err)
	}
	go func() { p.ended <- p.Wait() }()
	d.t.Cleanup(func() { p.Process.Kill() })
	return p
}

// subscribed waits for a first run, which begins with what happens from then on.
func (d *desk) subscribed() {
	d.t.Helper()
	await(d.t, func() string { return "three subscriptions" }, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.followers == 3
	})
}

// end ends the program as signal says.
func (p *program) end(t *testing.T, signal os.Signal) error {
	t.Helper()
	if err := p.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-p.ended:
		return err
	case <-time.After(patience):
		t.Fatal("it does not end")
		return nil
	}
}

// build builds the program, and the command by which its operator looks at dead letters.
func build(t *testing.T) (consumer, command string) {
	t.Helper()
	dir := t.TempDir()
	consumer, command = filepath.Join(dir, "consumer"), filepath.Join(dir, "mcpe-ops")
	for _, args := range [][]string{{"build", "-o", consumer, "."}, {"build", "-C", "../..", "-o", command, "./cmd/mcpe-ops"}} {
		if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return consumer, command
}

var changed = regexp.MustCompile(`^(INC-\d+) has changed (\d+) times$`)

// The program is killed in the middle of a burst, its server is away for a while, one event is refused again and again,
// and the operator has that one tried once more. Nothing is lost, and an orderly end repeats nothing.
func TestNothingIsLost(t *testing.T) {
	binary, command := build(t)
	dir, pager := t.TempDir(), newPager(t)
	d := &desk{t: t, db: filepath.Join(dir, "desk.db"), address: "127.0.0.1:0"}
	d.start()
	defer func() { d.stop() }()
	all, last := emitted{}, map[string]string{}

	// A burst, and a kill in the middle of it, with a call by each worker under way. More happens while the program is not
	// there.
	p := d.consumer(binary, dir, pager)
	d.subscribed()
	missing := func() (ids []string) {
		_, _, texts := pager.seen()
		for id, incident := range all {
			if (incident == "" || last[incident] == id) && len(texts[id]) == 0 {
				ids = append(ids, id)
			}
		}
		return ids
	}
	complete := func() {
		t.Helper()
		await(t, func() string { return fmt.Sprint(missing(), p.said.String()) }, func() bool { return len(missing()) == 0 })
	}
	d.emit(0, 1, all, last)
	complete()
	calls, _, _ := pager.seen()
	pager.set(calls+20, "")
	d.emit(1, 60, all, last)
	await(t, func() string { return "the first calls" }, func() bool { now, _, _ := pager.seen(); return now == calls+20 })
	if err := p.end(t, syscall.SIGKILL); err == nil {
		t.Fatal("it has ended before it was killed")
	}
	d.emit(60, 100, all, last)

	// The server is away while the program starts again, and what it has meanwhile is poisoned.
	d.stop()
	pager.set(0, "poison")
	p = d.consumer(binary, dir, pager)
	d.start()
	err := d.created.Emit(t.Context(), incidents.IncidentCreatedPayload{IncidentID: "INC-poison", Severity: incidents.SeverityP1, OpenedAt: events.NewTime(time.Now().UTC())}, events.WithID("poison"))
	if err != nil {
		t.Fatal(err)
	}
	d.emit(100, 120, all, last)
	complete()
	await(t, func() string { return "the last try of what is refused" }, func() bool { _, refused, _ := pager.seen(); return refused == 3 })
	if err := p.end(t, syscall.SIGTERM); err != nil {
		t.Fatal(err, p.said.String())
	}

	// Every change is in some burst, and bursts are fewer than changes.
	_, _, texts := pager.seen()
	joined, bursts, changes := map[string]int{}, 0, 0
	for _, of := range texts {
		for _, text := range of {
			if m := changed.FindStringSubmatch(text); m != nil {
				n, _ := strconv.Atoi(m[2])
				joined[m[1]] += n
				bursts++
			}
		}
	}
	for _, incident := range all {
		if incident != "" {
			changes++
		}
	}
	for incident := range last {
		if joined[incident] < changes/len(last) {
			t.Errorf("%s has changed %d times, the calls say %d", incident, changes/len(last), joined[incident])
		}
	}
	if bursts > changes/2 {
		t.Errorf("%d calls for %d changes", bursts, changes)
	}
	t.Logf("%d events, %d changes in %d calls", len(all)+1, changes, bursts)

	// The operator sees what was given up, mends the pager and has it tried again.
	operate := func(verb string, args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), command, append([]string{"deadletters", verb, filepath.Join(dir, "consumer.db")}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", verb, args, err, out)
		}
		return string(out)
	}
	listed := operate("list")
	if !strings.Contains(listed, "poison") || !strings.Contains(listed, "the pager answers 500") || strings.Contains(listed, "created-") {
		t.Errorf("listed are\n%s", listed)
	}
	sequence := regexp.MustCompile(`(?m)^\s*(\d+)\s.*poison`).FindStringSubmatch(listed)
	if sequence == nil {
		t.Fatalf("no number in\n%s", listed)
	}
	operate("retry", sequence[1])
	pager.set(0, "")
	before, _, _ := pager.seen()
	all, last = emitted{}, map[string]string{}
	d.emit(120, 121, all, last)
	p = d.consumer(binary, dir, pager)
	all["poison"] = ""
	complete()
	if err := p.end(t, syscall.SIGTERM); err != nil {
		t.Fatal(err, p.said.String())
	}
	if calls, _, _ := pager.seen(); calls-before > len(all) {
		t.Errorf("%d calls for %d events: an orderly end repeats what was settled", calls-before, len(all))
	}
	if listed := operate("list"); strings.Contains(listed, "poison") {
		t.Errorf("still listed:\n%s", listed)
	}
}

// own is how many lines a consumer of three event types may have beside what its handlers do.
const own = 25

// Counted are the lines of main.go that have code, without the package clause and the imports, which editors write, and
// without the bodies of the handlers, each from behind its first line to the one with its closing brace.
func TestLines(t *testing.T) {
	text, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, "main.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[int]bool{}
	file := files.AddFile("main.go", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	for pos, tok, lit := s.Scan(); tok != token.EOF; pos, tok, lit = s.Scan() {
		if tok != token.SEMICOLON || lit != "\n" {
			lines[file.Line(pos)] = true
		}
	}
	without := func(from, to token.Pos) {
		for n := files.Position(from).Line; n <= files.Position(to).Line; n++ {
			delete(lines, n)
		}
	}
	without(parsed.Package, parsed.Name.End())
	handlers := 0
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			if n.Tok == token.IMPORT {
				without(n.Pos(), n.End())
			}
		case *ast.CallExpr:
			f, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || !strings.HasPrefix(f.Sel.Name, "Handle") {
				break
			}
			for _, arg := range n.Args {
				if body, ok := arg.(*ast.FuncLit); ok {
					handlers++
					head := files.Position(body.Body.Lbrace).Line
					without(body.Body.Lbrace, body.Body.Rbrace)
					lines[head] = true
				}
			}
		}
		return true
	})
	if handlers != 3 {
		t.Errorf("%d handlers", handlers)
	}
	if len(lines) > own {
		t.Errorf("%d lines are the user's own, wanted are at most %d", len(lines), own)
	}
	t.Logf("%d lines", len(lines))
}
