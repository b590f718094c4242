// Command build builds the campaign so that the clocks of its replicas can be set. With -mutants it verifies that
// faults are found. Each mutant is a change to the code that the campaign, or a test named by the mutant, must detect.
// Without a change, the campaign must not report a finding. The source files are not modified. The compiler reads
// modified copies instead (go build -overlay).
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

// A change replaces text that occurs exactly once in a file.
type change struct{ file, old, new string }

// clock is a change that makes an environment variable set the wall clock of a process. The monotonic clock is not
// affected.
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

// A program is the campaign of an engine, with the directory of its module, its package and the mutants to find.
type program struct {
	dir, pkg string
	mutants  []mutant
	clean    [][]string // arguments for runs of the unchanged campaign, which must not report findings
}

var programs = map[string]program{
	"postgres":  {".", "./runtime/internal/testkit/campaign/postgres", postgresMutants, [][]string{nil, relayArgs}},
	"jetstream": {"runtime/store/jetstream", "./internal/campaign", jetStreamMutants, nil}, // its tests run without this command
}

// A mutant is a fault that must be found by its test or, if it has no test, by the campaign.
type mutant struct {
	name    string
	changes []change
	test    test
	args    []string // of the campaign
}

// A test identifies a test by the directory of its module, its package and its name.
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
		err = runAll(p, *out, *only, *d, *runs)
	default:
		err = build(p, *out, nil)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "campaign build:", err)
		os.Exit(1)
	}
}

// runAll runs every mutant and prints the results.
func runAll(p program, out, only string, d time.Duration, runs int) (err error) {
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
			one(m.name, true, func() (string, error) { return m.test.find(m.changes) })
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

// find runs the test with the changed code. It returns the name of the failed subtest, or "" if none failed.
func (t test) find(changes []change) (failed string, err error) {
	overlay, done, err := writeOverlay(changes)
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

// run executes the program and returns its first finding, or "" if it does not report one. If first is set, the program
// stops at the first finding.
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
	overlay, done, err := writeOverlay(append(append([]change(nil), clock...), changes...))
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

// writeOverlay writes the changed files and an overlay file that replaces the originals with them. done removes all of
// them.
func writeOverlay(changes []change) (overlay string, done func(), err error) {
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

// replacements writes the changed files to dir. It returns a map from original paths to paths of changed files.
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
