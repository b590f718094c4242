package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

const (
	handlingVar = "MCPE_CLIENT_TEST_HANDLING" // URL and database
	killsVar    = "MCPE_CONSUME_KILLS"        // how many kills, instead of a few
)

// lifeTime is how long a life may last: what was lost would be waited for without an end.
const lifeTime = 3 * time.Minute

var killTypes = []string{"tick", "tock", "tack"}

// told is a store that prints the eventIds of what was saved.
type told struct {
	*sqlite.Store
	print func(format string, args ...any)
}

func (s *told) Save(ctx context.Context, key string, saved clientstore.Saved) error {
	err := s.Store.Save(ctx, key, saved)
	if err == nil {
		s.print("saved %s %s", key, strings.Join(saved.EventIDs, " "))
	}
	return err
}

// runHandling makes this test binary a program that consumes three event types with eight workers, and prints what
// its handlers did and what was saved.
func runHandling() bool {
	what := strings.Fields(os.Getenv(handlingVar))
	if len(what) != 2 {
		return false
	}
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	ctx := context.Background()
	db, err := sqlite.Open(ctx, what[1], sqlite.Options{})
	check(err)
	cl, err := Connect(ctx, HTTP(what[0], nil), Options{Logger: slog.New(slog.DiscardHandler)})
	check(err)
	var mu sync.Mutex
	print := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		_, err := fmt.Fprintf(os.Stdout, format+"\n", args...)
		check(err)
	}
	var all []Binding
	for _, name := range killTypes {
		all = append(all, Handle(Dynamic(name), nil, func(_ context.Context, ev *events.Event[json.RawMessage, json.RawMessage]) error {
			print("handled %s", ev.ID)
			return nil
		}, WithCursorKey(name)))
	}
	check(Consume(ctx, cl, ConsumeOptions{Store: &told{db, print}, Workers: 8}, all...))
	return true
}

// CON-2: a process that consumes three event types with eight workers and is killed again and again loses nothing, and
// repeats nothing that was saved as settled.
func TestCON2Killed(t *testing.T) {
	kills := 4
	if n, err := strconv.Atoi(os.Getenv(killsVar)); err == nil {
		kills = n
	}
	srv := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{Logger: slog.New(slog.DiscardHandler), Retention: server.Retention{MaxCount: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	defer es.Shutdown(context.Background())
	var emit []*server.Emitter[tickPayload]
	for _, name := range killTypes {
		typ := tickType(t, "")
		typ.Name = name
		e, err := server.Register(es, typ, server.Hooks[tickArguments, tickPayload]{})
		if err != nil {
			t.Fatal(err)
		}
		emit = append(emit, e)
	}
	ts := httptest.NewServer(transport.NewHandler(es, transport.HandlerOptions{}))
	defer ts.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "consumer.db")
	random := rand.New(rand.NewPCG(1, 2))
	handled, settled, started := map[string]int{}, map[string]bool{}, map[string]bool{}
	emitted, repeated := 0, 0
	for life := 0; life <= kills; life++ {
		alive, end := context.WithTimeout(t.Context(), lifeTime)
		defer end()
		cmd := exec.CommandContext(alive, exe)
		cmd.Env = append(os.Environ(), handlingVar+"="+ts.URL+" "+path)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		more := func() {
			for i, e := range emit {
				for range 20 + random.IntN(40) {
					emitted++
					if err := e.Emit(t.Context(), tickPayload{Seq: emitted}, events.WithID(fmt.Sprint(killTypes[i], emitted))); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if life > 0 {
			more()
		}
		before := len(handled)
		enough, saves := 1+random.IntN(150), random.IntN(len(killTypes)+1)
		take := func(line string) {
			words := strings.Fields(line)
			switch words[0] {
			case "handled":
				if settled[words[1]] {
					t.Errorf("life %d: %s is handled again, and was saved as settled", life, words[1])
				}
				if handled[words[1]]++; handled[words[1]] > 1 {
					repeated++
				}
			case "saved":
				saves--
				started[words[1]] = true
				for _, id := range words[2:] {
					settled[id] = true
				}
			}
		}
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("life %d, %d of %d events handled: the process ended: %v", life, len(handled), emitted, errors.Join(err, alive.Err()))
			}
			first := len(started) < len(killTypes)
			take(line)
			if first && len(started) == len(killTypes) {
				more() // from here on nothing may be missing
			}
			if len(started) == len(killTypes) && (life < kills && len(handled)-before >= enough && saves <= 0 || len(handled) == emitted) {
				break
			}
		}
		cmd.Process.Kill()
		for { // what it did before it was killed
			line, err := lines.ReadString('\n')
			if err != nil {
				break
			}
			take(line)
		}
		cmd.Wait()
	}
	t.Logf("%d kills, %d events, %d handled again", kills, emitted, repeated)
}
