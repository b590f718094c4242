package wake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

// doing is a command that acts as command in main_test.go says.
func doing(t *testing.T, a string, args ...string) *Command {
	t.Helper()
	t.Setenv(act, a)
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	return &Command{Argv: append([]string{os.Args[0]}, args...), Timeout: time.Minute}
}

func batch(events ...string) Batch {
	b := Batch{Server: "ci", Event: "run.completed", Subscription: "main"}
	for _, e := range events {
		b.Events = append(b.Events, json.RawMessage(e))
	}
	return b
}

func read[T any](t *testing.T, path string) (v T) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// BRIDGE-4: the command gets the batch as one JSON document, and the environment has name, server and count. BRIDGE-6:
// it has nothing else of the event; no shell reads any of it.
func TestWhatTheCommandSees(t *testing.T) {
	file := filepath.Join(t.TempDir(), "seen")
	for _, secret := range []string{"MCPE_GEN_TOKEN", "MCPE_GEN_SECRET", "MCPE_ADMIN_TOKEN"} {
		t.Setenv(secret, "hush")
	}
	t.Setenv("WAKE_TEST_SECRET", "hush")
	c := doing(t, "look", file, "$(exit 9); `exit 9` *")
	c.Secrets = []string{"WAKE_TEST_SECRET"}
	b := batch(`{"eventId":"1","data":{"text":"$(touch x) \u001b[2J \u202e <&>"}}`, `{"eventId":"2"}`)
	b.Event = "run\x00.\x1b" + strings.Repeat("é", 4000)
	b.Count = 7
	b.First = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	b.Last = b.First.Add(time.Hour)
	if outcome, err := c.Try(t.Context(), b); outcome != Settled || err != nil {
		t.Fatal(outcome, err)
	}
	got := read[seen](t, file)
	if !slices.Equal(got.Argv, c.Argv[1:]) {
		t.Errorf("arguments %q", got.Argv)
	}
	if slices.ContainsFunc(got.Env, func(v string) bool { return strings.Contains(v, "hush") }) {
		t.Errorf("the environment has a token: %q", got.Env)
	}
	got.Env = slices.DeleteFunc(got.Env, func(v string) bool { return slices.Contains(os.Environ(), v) }) // those of the test run
	if len(got.Env) != 3 {
		t.Errorf("environment %q", got.Env)
	}
	for _, want := range []string{`MCPE_EVENT=run\x00.\x1bé`, "MCPE_SERVER=ci", "MCPE_COUNT=7"} {
		i := slices.IndexFunc(got.Env, func(v string) bool { return strings.HasPrefix(v, want) })
		if i < 0 {
			t.Errorf("no %s in %q", want, got.Env)
		} else if len(got.Env[i]) > maxVariable+len("MCPE_EVENT=") {
			t.Errorf("%d bytes of %s", len(got.Env[i]), want)
		}
	}
	if strings.IndexFunc(strings.TrimSuffix(got.Stdin, "\n"), plain.Hidden) >= 0 {
		t.Errorf("not escaped: %q", got.Stdin)
	}
	var doc struct {
		Batch
		Untrusted string
	}
	if err := json.Unmarshal([]byte(got.Stdin), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Event != b.Event || doc.Count != 7 || len(doc.Events) != 2 || doc.Untrusted != Untrusted || !doc.Last.Equal(b.Last) || doc.Subscription != "main" {
		t.Errorf("%+v", doc)
	}
	var data struct{ Data struct{ Text string } }
	if err := json.Unmarshal(doc.Events[0], &data); err != nil || data.Data.Text != "$(touch x) \x1b[2J \u202e <&>" {
		t.Error(data, err)
	}
}

// BRIDGE-4: the exit code decides, with the command's output as the reason.
func TestExitCodes(t *testing.T) {
	for code, want := range map[string]Outcome{"0": Settled, "75": Retry, "65": DeadLetter, "1": Retry, "126": Retry, "255": Retry} {
		c := doing(t, "exit", code, "why\x1b[2J\nnot")
		var shown bytes.Buffer
		c.Output = &shown
		// It does not read its input, which no pipe can hold.
		outcome, err := c.Try(t.Context(), batch(`{"data":"`+strings.Repeat("x", 1<<20)+`"}`))
		if outcome != want || (err == nil) != (want == Settled) {
			t.Errorf("%s: %v, %v", code, outcome, err)
		}
		if err != nil && err.Error() != "the command ended with exit code "+code+`: why\x1b[2J\nnot` {
			t.Errorf("%s: %v", code, err)
		}
		if got := shown.String(); got != "why\\x1b[2J\nnot\n" {
			t.Errorf("%q", got)
		}
	}
	if outcome, err := doing(t, "exit", "0", "").Try(t.Context(), batch("{")); outcome != DeadLetter || err == nil {
		t.Error("what is no JSON:", outcome, err)
	}
}

// BRIDGE-6: of what a command prints a bounded part is kept.
func TestOutputIsBounded(t *testing.T) {
	c := doing(t, "flood", "20000000")
	outcome, err := c.Try(t.Context(), batch(`{}`))
	if outcome != Retry || err == nil {
		t.Fatal(outcome, err)
	}
	text := err.Error()
	if len(text) > 4*maxOutput+100 || !strings.Contains(text, "bytes more") || strings.IndexFunc(text, plain.Hidden) >= 0 {
		t.Errorf("%d bytes: %.200q", len(text), text)
	}
	var o output
	for range 10_000 {
		if n, err := o.Write(bytes.Repeat([]byte("é"), 1000)); n != 2000 || err != nil {
			t.Fatal(n, err)
		}
	}
	if len(o.kept) != maxOutput || cap(o.kept) > 2*maxOutput || o.more != 20_000_000-maxOutput {
		t.Error(len(o.kept), cap(o.kept), o.more)
	}
	o = output{}
	_, _ = o.Write([]byte("a" + strings.Repeat("é", maxOutput)))
	if got := o.keptText(); len(got) != maxOutput-1 || !strings.HasSuffix(got, "é") {
		t.Errorf("%d bytes that end with %q", len(got), got[len(got)-3:])
	}
}

// A command that cannot be started is an error about the command, not about the batch.
func TestCannotStart(t *testing.T) {
	dir := t.TempDir()
	plainFile := filepath.Join(dir, "file")
	if err := os.WriteFile(plainFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mcpe-gen-no-such-program", filepath.Join(dir, "none"), plainFile, dir} {
		c := &Command{Argv: []string{name}}
		for what, err := range map[string]error{"check": c.Check(), "try": second(c.Try(t.Context(), batch(`{}`))), "run": second(c.Run(t.Context(), batch(`{}`)))} {
			var start *StartError
			if !errors.As(err, &start) || start.Name != name || strings.Count(err.Error(), name) != 1 {
				t.Errorf("%s %s: %v", what, name, err)
			}
		}
		if outcome, _ := c.Run(t.Context(), batch(`{}`)); outcome != Retry {
			t.Error(outcome)
		}
	}
	for _, c := range []*Command{{}, {Argv: []string{""}}, {Argv: os.Args, Timeout: -1}, {Argv: os.Args, PerMinute: -1}, {Argv: os.Args, Attempts: -1}, {Argv: os.Args, Drain: -1}} {
		if err := c.Check(); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	if err := (&Command{Argv: []string{os.Args[0]}}).Check(); err != nil {
		t.Error(err)
	}
	if err := (&Command{Argv: []string{"./" + filepath.Base(os.Args[0])}, Dir: filepath.Dir(os.Args[0])}).Check(); err != nil {
		t.Error("a program of its directory:", err)
	}
}

func second(_ Outcome, err error) error { return err }

// A fake is a runner whose tries take a while and end as told.
type fake struct {
	ends   func(try int) (int, error)
	takes  time.Duration
	tries  atomic.Int64
	at     []time.Duration
	inside atomic.Int64
}

func (f *fake) command(t *testing.T, c *Command) *Command {
	began := time.Now()
	c.run = func(ctx context.Context, _ []byte, _ []string, out io.Writer) (int, error) {
		if f.inside.Add(1) > 1 {
			t.Error("two at a time")
		}
		defer f.inside.Add(-1)
		f.at = append(f.at, time.Since(began).Round(time.Millisecond)) // the limiter computes with floats
		if err := sleep(ctx, f.takes); err != nil {
			return 0, context.Cause(ctx)
		}
		return f.ends(int(f.tries.Add(1)))
	}
	return c
}

// BRIDGE-4: a batch is tried again with growing pauses, and is given up after the last try.
func TestRun(t *testing.T) {
	always := func(code int) func(int) (int, error) { return func(int) (int, error) { return code, nil } }
	for _, test := range []struct {
		name     string
		ends     func(try int) (int, error)
		attempts int
		want     Outcome
		tries    int
		end      time.Duration
	}{
		{"settled", always(0), 0, Settled, 1, 0},
		{"no", always(ExitDead), 0, DeadLetter, 1, 0},
		{"later", always(ExitRetry), 0, DeadLetter, 5, (1 + 2 + 4 + 8) * time.Second},
		{"others", always(1), 2, DeadLetter, 2, time.Second},
		{"many", always(1), 9, DeadLetter, 9, (1 + 2 + 4 + 8 + 16 + 32 + 60 + 60) * time.Second},
		{"in the end", func(try int) (int, error) { return 3 - try, nil }, 0, Settled, 3, 3 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{ends: test.ends}
				began := time.Now()
				outcome, err := f.command(t, &Command{Attempts: test.attempts}).Run(t.Context(), batch(`{}`))
				if outcome != test.want || (err == nil) != (test.want == Settled) || int(f.tries.Load()) != test.tries || time.Since(began) != test.end {
					t.Errorf("%v, %v after %d tries and %v", outcome, err, f.tries.Load(), time.Since(began))
				}
			})
		})
	}
}

// BRIDGE-4: the rate spaces tries, and one runs at a time.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{ends: func(int) (int, error) { return 0, nil }, takes: 3 * time.Second}
		c := f.command(t, &Command{PerMinute: 6})
		done := make(chan struct{})
		for range 4 {
			go func() {
				defer func() { done <- struct{}{} }()
				if outcome, err := c.Run(t.Context(), batch(`{}`)); outcome != Settled {
					t.Error(outcome, err)
				}
			}()
		}
		for range 4 {
			<-done
		}
		if want := []time.Duration{0, 10 * time.Second, 20 * time.Second, 30 * time.Second}; !slices.Equal(f.at, want) {
			t.Error(f.at)
		}
		// Who waits for the rate or its turn does not outlive the context.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 2 {
			go func() {
				defer func() { done <- struct{}{} }()
				if outcome, err := c.Run(ctx, batch(`{}`)); outcome != Retry || err == nil {
					t.Error(outcome, err)
				}
			}()
		}
		<-done
		<-done
		if len(f.at) != 4 {
			t.Error("a try began:", f.at)
		}
	})
}

// BRIDGE-4: a try has a timeout, after which the batch is tried again; an end leaves a command that runs its time.
func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{ends: func(int) (int, error) { return 0, nil }, takes: time.Hour}
		outcome, err := f.command(t, &Command{Attempts: 2}).Run(t.Context(), batch(`{}`))
		if outcome != DeadLetter || err == nil || !strings.Contains(err.Error(), "timeout of 5m0s") || len(f.at) != 2 || f.at[1] != DefaultTimeout+time.Second {
			t.Error(outcome, err, f.at)
		}
		for _, test := range []struct {
			takes, drain, timeout, end time.Duration
			want                       Outcome
		}{
			{time.Minute, 0, 0, time.Second, Retry},
			{time.Minute, 10 * time.Second, 0, 11 * time.Second, Retry},
			{time.Minute, 10 * time.Second, 5 * time.Second, 5 * time.Second, Retry},
			{6 * time.Second, 10 * time.Second, 0, 6 * time.Second, Settled},
		} {
			f := &fake{ends: func(int) (int, error) { return 0, nil }, takes: test.takes}
			c := f.command(t, &Command{Drain: test.drain, Timeout: test.timeout})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			began := time.Now()
			outcome, err := c.Run(ctx, batch(`{}`))
			cancel()
			if outcome != test.want || time.Since(began) != test.end || (err == nil) != (test.want == Settled) || len(f.at) != 1 {
				t.Errorf("%+v: %v, %v after %v, %d tries", test, outcome, err, time.Since(began), len(f.at))
			}
		}
	})
}
