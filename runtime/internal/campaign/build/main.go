// Command build builds the campaign with replicas whose clocks can be set, and tells whether the campaign finds what
// it is there for: with -mutants it is built once with each of the changes below and has to end with a finding, and
// once without any and has to end without one. No change is in the source: the compiler is given other files in the
// place of those that it changes (go build -overlay).
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
)

// A change puts one text in the place of another, which stands in the file once.
type change struct{ file, old, new string }

// clock lets an environment variable set a process's wall clock. Its monotonic clock goes on as it is.
var clock = []change{
	{"$GOROOT/src/time/time.go", "	sec, nsec, mono := runtimeNow()\n	if mono == 0 {\n		return Time{uint64(nsec), sec + unixToInternal, Local}",
		"	sec, nsec, mono := runtimeNow()\n	sec += campaignOffset\n	if mono == 0 {\n		return Time{uint64(nsec), sec + unixToInternal, Local}"},
	{"$GOROOT/src/time/time.go", "// Now returns the current local time.\n", `var campaignOffset = func() int64 {
	text, _ := syscall.Getenv("MCPE_CAMPAIGN_CLOCK")
	seconds, _ := atoi(text)
	return int64(seconds)
}()

// Now returns the current local time.
`},
	{"$GOROOT/src/time/time.go", "import (\n", "import (\n\t\"syscall\"\n"},
}

// A program is the campaign of an engine: a package, in the directory of its module.
type program struct{ dir, pkg string }

var programs = map[string]program{
	"postgres":  {".", "./runtime/internal/campaign/postgres"},
	"jetstream": {"runtime/store/jetstream", "./internal/campaign"},
}

// mutants are what the campaign on PostgreSQL has to find.
var mutants = []struct {
	name    string
	changes []change
	args    []string // of the campaign
}{
	{"no fence check", []change{{"runtime/store/postgres/migrations/09_holds.sql",
		"generation FROM @.store) FOR SHARE;\n	IF NOT FOUND THEN\n		RAISE EXCEPTION 'shard % of % is not held by %'",
		"generation FROM @.store) FOR SHARE;\n	IF false THEN\n		RAISE EXCEPTION 'shard % of % is not held by %'"}}, nil},
	{"lease clock disarmed", []change{{"runtime/internal/shard/lease.go",
		"func (o *Owner) judge(s *session, mono time.Duration, wall time.Time) bool {\n",
		"func (o *Owner) judge(s *session, mono time.Duration, wall time.Time) bool {\n	return true\n"}}, nil},
	{"deaf to others' changes", []change{{"runtime/internal/subscriber/sync.go",
		"func (w *Subscriptions) Changed(id string, of engine.Shard) {\n",
		"func (w *Subscriptions) Changed(id string, of engine.Shard) {\n	return\n"}}, nil},
	{"outbox only of transactions that began after the last look", []change{
		{"runtime/internal/outbox/look.go", "	for _, tx := range w.since.active {\n		between(tx, tx)\n	}\n", ""},
		{"runtime/internal/outbox/look.go", "	if w.main.began == nil && now.Sub(w.whole) >= wholeEvery {\n", "	if w.whole.IsZero() {\n"}}, nil},
	{"relay that does not look for what was appended before", []change{{"runtime/outbox/pgoutbox/relay.go",
		"		group[i].Once = true\n", ""}}, ofRelay},
	{"relay that deletes before it appends", []change{{"runtime/outbox/pgoutbox/relay.go",
		"			m := &mover{db: db{tx}, into: r.into, until: time.Now().Add(moveAllTime)}\n",
		`			m := &mover{db: db{tx}, into: r.into, until: time.Now().Add(moveAllTime)}
			for i := range rows {
				r.box.pool.Exec(ctx, r.box.in("DELETE FROM @.outbox WHERE id = ANY ($1)"), []int64{rows[i].ID()})
			}
`}}, ofRelay},
}

// ofRelay asks for the campaign of the relay.
var ofRelay = []string{"-relay"}

func main() {
	out := flag.String("o", "bin/campaign", "the program to write")
	engine := flag.String("engine", "postgres", "whose campaign it is: postgres or jetstream")
	judge := flag.Bool("mutants", false, "run the campaign with each change, and without")
	only := flag.String("only", "", "of the mutants those whose name holds this; \"none\" for the campaign without a change")
	d := flag.Duration("time", time.Minute, "how long faults happen")
	runs := flag.Int("runs", 1, "how often each")
	flag.Parse()
	var err error
	switch p, ok := programs[*engine]; {
	case !ok:
		err = fmt.Errorf("-engine %s: it is postgres or jetstream", *engine)
	case *judge && *engine != "postgres":
		err = errors.New("-mutants: they are changes of PostgreSQL's engine")
	case *judge:
		err = all(*out, *only, *d, *runs)
	default:
		err = build(p, *out, nil)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "campaign build:", err)
		os.Exit(1)
	}
}

// all runs every mutant and prints what came of it.
func all(out, only string, d time.Duration, runs int) (err error) {
	tw := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer tw.Flush()
	one := func(name string, changes []change, red bool, args ...string) {
		if !strings.Contains(name, only) && !(only == "none" && !red) {
			return
		}
		if e := build(programs["postgres"], out, changes); e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, e))
			return
		}
		for i := range runs {
			began := time.Now()
			found, e := run(out, d, red, args...)
			if e != nil || (found != "") != red {
				err = errors.Join(err, fmt.Errorf("%s, run %d: found %q, %w", name, i+1, found, e))
			}
			fmt.Fprintf(tw, "%s\t%d\t%v\t%s\n", name, i+1, time.Since(began).Round(time.Second), found)
			tw.Flush()
		}
	}
	for _, m := range mutants {
		one(m.name, m.changes, true, m.args...)
	}
	one("unchanged", nil, false)
	one("relay, unchanged", nil, false, ofRelay...)
	return err
}

// run runs the program and returns its first finding, "" for none. One that shall find something ends when it has.
func run(program string, d time.Duration, first bool, args ...string) (finding string, err error) {
	cmd := exec.Command(program, append([]string{"-time", d.String(), fmt.Sprintf("-first=%t", first)}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		line, _, _ := strings.Cut(strings.TrimPrefix(stderr.String(), "campaign: "), "\n")
		return line, nil
	}
	return "", err
}

// build builds the campaign with the changes.
func build(p program, out string, changes []change) error {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mcpe-campaign-build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	replaced := map[string]string{}
	for _, c := range append(append([]change(nil), clock...), changes...) {
		path, err := filepath.Abs(strings.Replace(c.file, "$GOROOT", strings.TrimSpace(string(root)), 1))
		if err != nil {
			return err
		}
		from := replaced[path]
		if from == "" {
			from = path
			replaced[path] = filepath.Join(dir, fmt.Sprint(len(replaced), ".go"))
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if n := strings.Count(string(text), c.old); n != 1 {
			return fmt.Errorf("%s has %q %d times, and not once", c.file, c.old, n)
		}
		if err := os.WriteFile(replaced[path], []byte(strings.Replace(string(text), c.old, c.new, 1)), 0o600); err != nil {
			return err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return err
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return err
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-overlay", overlay, "-o", out, p.pkg)
	cmd.Dir = p.dir
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}
