// Command build builds the campaign with replicas whose clocks can be set. With -mutants it checks that faults are
// found: each mutant is a change of the code that the campaign, or the test that the mutant names, must detect;
// without a change, the campaign must end without a finding. The source does not change: the compiler reads changed
// copies of files (go build -overlay).
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

// A change replaces a text that occurs once in the file.
type change struct{ file, old, new string }

// clock lets an environment variable set a process's wall clock. Its monotonic clock is unaffected.
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

// A program is the campaign of an engine: a package, in the directory of its module, and the mutants that must be
// found.
type program struct {
	dir, pkg string
	mutants  []mutant
	clean    [][]string // arguments with which the unchanged campaign must find nothing
}

var programs = map[string]program{
	"postgres":  {".", "./runtime/internal/campaign/postgres", ofPostgres, [][]string{nil, ofRelay}},
	"jetstream": {"runtime/store/jetstream", "./internal/campaign", ofJetStream, nil}, // its tests run without this command
}

// A mutant is a fault that must be found: by its test or, without one, by the campaign.
type mutant struct {
	name    string
	changes []change
	test    test
	args    []string // of the campaign
}

// A test is a test of a package, in the directory of its module.
type test struct{ dir, pkg, run string }

func main() {
	out := flag.String("o", "bin/campaign", "the program to write")
	engine := flag.String("engine", "postgres", "the engine: postgres or jetstream")
	judge := flag.Bool("mutants", false, "run the campaign with each mutant, and without")
	only := flag.String("only", "", "run only mutants whose name contains this; \"none\" for the campaign without a change")
	d := flag.Duration("time", time.Minute, "how long faults happen")
	runs := flag.Int("runs", 1, "how often to run each")
	flag.Parse()
	var err error
	switch p, ok := programs[*engine]; {
	case !ok:
		err = fmt.Errorf("unknown -engine %s: use postgres or jetstream", *engine)
	case *judge:
		err = all(p, *out, *only, *d, *runs)
	default:
		err = build(p, *out, nil)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "campaign build:", err)
		os.Exit(1)
	}
}

// all runs every mutant and prints the results.
func all(p program, out, only string, d time.Duration, runs int) (err error) {
	tw := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer tw.Flush()
	one := func(name string, red bool, find func() (string, error)) {
		for i := range runs {
			began := time.Now()
			found, e := find()
			if e == nil && (found != "") != red {
				e = fmt.Errorf("found %q", found)
			}
			if e != nil {
				err = errors.Join(err, fmt.Errorf("%s, run %d: %w", name, i+1, e))
			}
			fmt.Fprintf(tw, "%s\t%d\t%v\t%s\n", name, i+1, time.Since(began).Round(time.Second), found)
			tw.Flush()
		}
	}
	for _, m := range p.mutants {
		if !strings.Contains(m.name, only) {
			continue
		}
		if m.test != (test{}) {
			one(m.name, true, func() (string, error) { return m.test.finds(m.changes) })
			continue
		}
		if e := build(p, out, m.changes); e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", m.name, e))
			continue
		}
		one(m.name, true, func() (string, error) { return run(out, d, true, m.args...) })
	}
	if len(p.clean) == 0 || only != "" && only != "none" {
		return err
	}
	if e := build(p, out, nil); e != nil {
		return errors.Join(err, e)
	}
	for _, args := range p.clean {
		one(strings.Join(append([]string{"unchanged"}, args...), " "), false, func() (string, error) { return run(out, d, false, args...) })
	}
	return err
}

// finds runs the test on the changed code and returns the name of the failed subtest, "" for none.
func (t test) finds(changes []change) (failed string, err error) {
	overlay, done, err := overlaid(changes)
	if err != nil {
		return "", err
	}
	defer done()
	cmd := exec.Command("go", "test", "-overlay", overlay, "-count=1", "-timeout", "5m", "-run", t.run, t.pkg)
	cmd.Dir = t.dir
	text, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "--- FAIL: ") { // subtests come last
			failed, _, _ = strings.Cut(strings.TrimPrefix(line, "--- FAIL: "), " (")
		} else if strings.HasPrefix(line, "panic: ") && !strings.HasPrefix(line, "panic: test timed out") && failed == "" {
			failed = line
		}
	}
	switch {
	case failed != "":
		return failed, nil
	case err != nil:
		return "", fmt.Errorf("%w: %s", err, text)
	case bytes.Contains(text, []byte("no tests to run")):
		return "", fmt.Errorf("%s has no test %s", t.pkg, t.run)
	}
	return "", nil
}

// run runs the program and returns its first finding, "" for none. If first is set, it ends at the first finding.
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
	overlay, done, err := overlaid(append(append([]change(nil), clock...), changes...))
	if err != nil {
		return err
	}
	defer done()
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-overlay", overlay, "-o", out, p.pkg)
	cmd.Dir = p.dir
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}

// overlaid writes changed files and the overlay that replaces the originals by them; done removes them.
func overlaid(changes []change) (overlay string, done func(), err error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "mcpe-campaign-build-")
	if err != nil {
		return "", nil, err
	}
	done = func() { os.RemoveAll(dir) }
	replaced, err := replacements(dir, strings.TrimSpace(string(root)), changes)
	var text []byte
	if err == nil {
		text, err = json.Marshal(map[string]any{"Replace": replaced})
	}
	overlay = filepath.Join(dir, "overlay.json")
	if err == nil {
		err = os.WriteFile(overlay, text, 0o600)
	}
	if err != nil {
		done()
		return "", nil, err
	}
	return overlay, done, nil
}

// replacements writes the changed files to dir and returns their paths by those of the originals.
func replacements(dir, goroot string, changes []change) (map[string]string, error) {
	replaced := map[string]string{}
	for _, c := range changes {
		path, err := filepath.Abs(strings.Replace(c.file, "$GOROOT", goroot, 1))
		if err != nil {
			return nil, err
		}
		from := replaced[path]
		if from == "" {
			from = path
			replaced[path] = filepath.Join(dir, fmt.Sprint(len(replaced), ".go"))
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		if n := strings.Count(string(text), c.old); n != 1 {
			return nil, fmt.Errorf("%s has %q %d times, and not once", c.file, c.old, n)
		}
		if err := os.WriteFile(replaced[path], []byte(strings.Replace(string(text), c.old, c.new, 1)), 0o600); err != nil {
			return nil, err
		}
	}
	return replaced, nil
}
