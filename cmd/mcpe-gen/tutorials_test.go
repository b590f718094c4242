//go:build unix

package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/clitest"
	"github.com/mcpe-gen/mcpe-gen/internal/procgroup"
	"github.com/mcpe-gen/mcpe-gen/internal/testkit/freeport"
)

var (
	// fileName is the first line of a block that is a whole file.
	fileName      = regexp.MustCompile(`\A(?:#|//) ([\w./-]+\.\w+)\n`)
	otherTerminal = regexp.MustCompile(`\A# (Terminal \d)\n`)
	// tutorialPort is an address of a page; each becomes a free one.
	tutorialPort = regexp.MustCompile(`127\.0\.0\.1:(\d+)|--http (\d+)`)
	// endsAtOnce is a command that never goes on, and whose end the next terminal counts on.
	endsAtOnce = regexp.MustCompile(`^(cd|kill) `)
)

// TestTutorials does what the pages of docs/tutorials and docs/recipes say, block by block: it writes the files, types
// the commands into the terminals and waits for what they show. Of the commands it changes the ports; "go mod tidy",
// which wants the network, to what loads the same modules; and what gets the command itself.
func TestTutorials(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: it builds programs")
	}
	var pages []string
	for _, dir := range []string{"tutorials", "recipes"} {
		found, err := filepath.Glob(filepath.Join("..", "..", "docs", dir, "*.md"))
		if err != nil || len(found) < 3 {
			t.Fatal(found, err)
		}
		pages = append(pages, found...)
	}
	for _, page := range pages {
		t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) { follow(t, readText(t, page)) })
	}
}

// follow does what a page says, in a directory that has the checkout as mcpe-gen.
func follow(t *testing.T, page string) {
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(checkout, filepath.Join(dir, "mcpe-gen")); err != nil {
		t.Fatal(err)
	}
	page = ownPorts(t, page)
	page = strings.NewReplacer(
		"$ git clone https://github.com/mcpe-gen/mcpe-gen\n", "$ test -d mcpe-gen\n",
		"go install ./cmd/mcpe-gen ./cmd/mcpe-conform", "go list ./cmd/mcpe-gen ./cmd/mcpe-conform > /dev/null",
		"$ go mod tidy\n", "$ cp "+checkout+"/go.sum . && go list -deps -test ./... > /dev/null\n",
	).Replace(page)
	if bin := filepath.Join(dir, "bin"); strings.Contains(page, "$ mcpe-conform ") {
		if out, err := exec.Command("go", "build", "-o", bin+string(filepath.Separator), "../mcpe-conform").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	terminals := map[string]*shell{}
	blocks := 0
	for _, m := range clitest.Block.FindAllStringSubmatch(page, -1) {
		blocks++
		language, text := m[1], m[2]
		if file := fileName.FindStringSubmatch(text); file != nil {
			path := filepath.Join(dir, filepath.FromSlash(file[1]))
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if language != "console" {
			t.Fatalf("a block is neither a file nor commands:\n%s", m[0])
		}
		name := "Terminal 1"
		if other := otherTerminal.FindStringSubmatch(text); other != nil {
			name, text = other[1], text[len(other[0]):]
		}
		if terminals[name] == nil {
			terminals[name] = newShell(t, dir, name)
		}
		terminals[name].enter(t, text, name == "Terminal 1")
	}
	if blocks == 0 {
		t.Error("the page has no block")
	}
}

// ownPorts gives each port of a page a free one.
func ownPorts(t *testing.T, page string) string {
	t.Helper()
	var pairs []string
	seen := map[string]bool{}
	for _, m := range tutorialPort.FindAllStringSubmatch(page, -1) {
		port := m[1] + m[2]
		if seen[port] {
			continue
		}
		seen[port] = true
		addrs, release, err := freeport.Reserve(1)
		if err != nil {
			t.Fatal(err)
		}
		defer release() // when all are chosen, so that no two are the same
		_, free, _ := net.SplitHostPort(addrs[0])
		pairs = append(pairs, "127.0.0.1:"+port, "127.0.0.1:"+free, "--http "+port, "--http "+free)
	}
	return strings.NewReplacer(pairs...).Replace(page)
}

// A shell is one terminal of a page: a bash that reads what is typed.
type shell struct {
	name  string
	dir   string // where it is when it starts; where it was when ^C ended it
	stdin io.WriteCloser
	out   *clitest.Lines
	seen  int // bytes of out that were waited for
	done  int // commands that were typed
	cmd   *exec.Cmd
	ended chan struct{}
}

func newShell(t *testing.T, dir, name string) *shell {
	s := &shell{name: name, dir: dir, out: &clitest.Lines{}}
	s.start(t)
	t.Cleanup(func() { s.interrupt() })
	return s
}

func (s *shell) start(t *testing.T) {
	s.cmd = exec.Command("bash", "--norc", "--noprofile")
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.dir, s.out, s.out
	s.cmd.WaitDelay = 10 * time.Second
	procgroup.Lead(s.cmd)
	state := filepath.Join(t.TempDir(), "state")
	s.cmd.Env = append(os.Environ(), "PATH="+filepath.Join(s.dir, "bin")+string(filepath.ListSeparator)+os.Getenv("PATH"), goFlags(), "GOPROXY=off", "GOWORK=off",
		"XDG_STATE_HOME="+state, "GORACE=atexit_sleep_ms=0")
	var err error
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	s.ended = ended
	go func(cmd *exec.Cmd) { _ = cmd.Wait(); close(ended) }(s.cmd)
}

// interrupt presses Ctrl-C and waits until nothing runs in the terminal.
func (s *shell) interrupt() {
	s.stdin.Close()
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGINT)
	select {
	case <-s.ended:
	case <-time.After(time.Minute):
	}
	_ = procgroup.Kill(s.cmd.Process)
	<-s.ended
}

// enter types the commands of a block one after the other and waits for what each shows. A command ends before the next
// begins, but the last one of a terminal in which a program goes on.
func (s *shell) enter(t *testing.T, text string, ends bool) {
	t.Helper()
	if rest, ok := strings.CutPrefix(text, "^C\n"); ok {
		text = rest
		s.interrupt()
		s.seen = len(s.out.String())
		s.start(t)
	}
	parts := strings.Split("\n"+text, "\n$ ")
	s.wait(t, strings.Trim(parts[0], "\n"))
	for i, part := range parts[1:] {
		command, want, _ := strings.Cut(part, "\n")
		want = strings.TrimSuffix(want, "\n")
		last := i == len(parts)-2
		s.done++
		mark := fmt.Sprintf("__%d__", s.done)
		fmt.Fprintf(s.stdin, "%s\nprintf '%s%%s:%%s\\n' $? \"$PWD\"\n", command, mark)
		if last && !ends && !endsAtOnce.MatchString(command) {
			s.wait(t, want)
			continue
		}
		end := regexp.MustCompile(mark + `(\d+):(.*)\n`)
		s.until(t, command, func(out string) bool { return end.MatchString(out) })
		m := end.FindStringSubmatch(s.out.String())
		if m[1] != "0" {
			t.Fatalf("%s: %s: exit code %s\n%s", s.name, command, m[1], s.out)
		}
		s.dir = m[2]
		s.wait(t, want)
	}
}

// wait waits until the lines of a page have appeared, in their order.
func (s *shell) wait(t *testing.T, want string) {
	t.Helper()
	if want == "" {
		return
	}
	for line := range strings.SplitSeq(want, "\n") {
		pattern := regexp.MustCompile(`(?m)^` + strings.ReplaceAll(regexp.QuoteMeta(line), "…", `.*`) + `\r?$`)
		s.until(t, line, func(out string) bool { return pattern.MatchString(out[s.seen:]) })
		s.seen += pattern.FindStringIndex(s.out.String()[s.seen:])[1]
	}
}

// until waits for the terminal's output, five minutes at most: programs are built meanwhile, by others too. It polls: a
// process gives no other sign.
func (s *shell) until(t *testing.T, what string, holds func(out string) bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); !holds(s.out.String()); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: %s did not come\n%s", s.name, what, s.out.String()[s.seen:])
		}
	}
}
