package mcpe

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
)

// MCPE-HAN-1, trap 14: what cannot stand in an environment is left out of it; a text with a zero byte or
// beyond the kernel's bound would keep the command from being run. variables carries it.
func TestBashVariables(t *testing.T) {
	e := &mcpewire.Event{ID: "evt_1", Type: "e", Data: json.RawMessage(`{}`),
		Metadata: mcpewire.Metadata{Priority: "high", Timestamp: "now", Tags: []string{"a\x00LD_PRELOAD=x", "b"}}}
	env := eventEnv(e, []byte(`{"id":"evt_1"}`))
	for _, v := range env {
		if strings.ContainsRune(v, 0) || strings.HasPrefix(v, "MCPE_EVENT_TAGS=") {
			t.Errorf("%q stands in the environment", v)
		}
	}
	for _, want := range []string{"MCPE_EVENT_ID=evt_1", "MCPE_EVENT_DATA={}", `MCPE_EVENT_JSON={"id":"evt_1"}`} {
		if !slices.Contains(env, want) {
			t.Errorf("no %s in %q", want, env)
		}
	}
	e.Metadata.Tags = []string{strings.Repeat("t", 2*maxVariable)}
	for _, v := range eventEnv(e, []byte(strings.Repeat("x", maxVariable+1))) {
		if len(v) > maxVariable || strings.HasPrefix(v, "MCPE_EVENT_JSON=") || strings.HasPrefix(v, "MCPE_EVENT_DATA=") {
			t.Errorf("%.30s, %d bytes, stands in the environment", v, len(v))
		}
	}
}

// MCPE-HAN-1, trap 14: an event too large for an argument or a variable is an error that says so, and
// nothing is run; by its input it has any size. bash.run carries it.
func TestBashLargeEvents(t *testing.T) {
	b, err := newBash(BashOptions{Allow: []string{"true"}, Args: map[string][][]string{"true": {{}, {"{event}"}}}})
	if err != nil {
		t.Skip(err)
	}
	for input, want := range map[string]string{inputArgs: "too large for an argument", inputEnv: "too large for the environment", inputStdin: ""} {
		r := &run{handler: &mcpewire.Handler{Command: "true", Input: input, Timeout: 1000}}
		r.event.Data = json.RawMessage(`"` + strings.Repeat("x", maxVariable) + `"`)
		err := b.run(t.Context(), r)
		if got := ""; err != nil {
			if got = err.Error(); want == "" || !strings.Contains(got, want) {
				t.Errorf("%s: %v", input, err)
			}
		} else if want != "" {
			t.Errorf("%s: it is run", input)
		}
	}
}

// MCPE-HAN-1: a handler cannot ask for more time than is allowed. bash.timeout carries it.
func TestBashTimeouts(t *testing.T) {
	b, err := newBash(BashOptions{Timeout: time.Minute, MaxTimeout: 2 * time.Minute})
	if err != nil {
		t.Skip(err)
	}
	for asked, want := range map[int64]time.Duration{0: time.Minute, -1: time.Minute, 1000: time.Second, 1e9: 2 * time.Minute} {
		h := &mcpewire.Handler{}
		h.Timeout = asked
		if got := b.timeout(h); got != want {
			t.Errorf("%d: %s, want %s", asked, got, want)
		}
	}
}

// MCPE-HAN-1, trap 14: a command runs in the directory that it was given, in the first one that is
// allowed when it was given none, and in no other: what leads out by a link, by ".." or by a name that
// begins alike is refused when it is run, too. bash.dir and bash.run carry it.
func TestBashDirectories(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	first, second, outside := filepath.Join(root, "first"), filepath.Join(root, "second"), filepath.Join(root, "firstborn")
	for _, dir := range []string{filepath.Join(first, "below"), second, outside} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(first, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(first, filepath.Join(root, "alias")); err != nil {
		t.Fatal(err)
	}
	given := []string{filepath.Join(root, "alias"), second}
	b, err := newBash(BashOptions{Allow: []string{"touch"}, Args: map[string][][]string{"touch": {{"*"}}}, Dirs: given})
	if err != nil {
		t.Skip(err)
	}
	if given[0] != filepath.Join(root, "alias") {
		t.Errorf("the caller's slice has become %q", given)
	}
	for cwd, want := range map[string]string{
		"": first, "below": filepath.Join(first, "below"), first: first, second: second, filepath.Join(root, "alias", "below"): filepath.Join(first, "below"),
		"..": "", "../firstborn": "", outside: "", "link": "", filepath.Join(first, "link"): "", "/": "", "none": "",
	} {
		r := &run{handler: &mcpewire.Handler{Command: "touch", Args: []string{"here"}, Cwd: cwd}}
		if err := b.run(t.Context(), r); (err == nil) != (want != "") {
			t.Errorf("in %q: %v", cwd, err)
		}
		var found []string
		for _, dir := range []string{first, filepath.Join(first, "below"), second, outside, root} {
			if os.Remove(filepath.Join(dir, "here")) == nil {
				found = append(found, dir)
			}
		}
		if want == "" && len(found) != 0 || want != "" && !slices.Equal(found, []string{want}) {
			t.Errorf("in %q: it ran in %q, want %q", cwd, found, want)
		}
	}
}

// MCPE-HAN-1, trap 14: runs of one handler do not write into each other's arguments or environment, nor
// into the subscription's. bash.run carries it.
func TestBashSharesNothing(t *testing.T) {
	env := append(make([]string, 0, 100), "PATH=/usr/bin:/bin")
	b, err := newBash(BashOptions{Allow: []string{"true"}, Args: map[string][][]string{"true": {{"**"}, {"**", "{event}"}}}, Env: env})
	if err != nil {
		t.Skip(err)
	}
	b.o.Env = env // with room behind it
	args := append(make([]string, 0, 8), "x")
	h := &mcpewire.Handler{Command: "true", Args: args, Input: inputArgs, Env: map[string]string{"EXTRA": "1"}}
	r := &run{handler: h}
	r.event.Data = json.RawMessage(`{}`)
	if err := b.run(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got := args[:2][1]; got != "" {
		t.Errorf("behind the handler's arguments stands %q", got)
	}
	if got := env[:2][1]; got != "" {
		t.Errorf("behind the environment stands %q", got)
	}
}

// MCPE-HAN-1: a subscriber chooses arguments within the patterns of the command, and options only if a pattern has
// them: find, tar and sort do not write where they are not meant to.
func TestBashArgs(t *testing.T) {
	b, err := newBash(BashOptions{Allow: []string{"find", "tar", "sort", "true"}, Dirs: []string{t.TempDir()},
		Args: map[string][][]string{"find": {{"**"}}, "tar": {{"-t", "-f", "*"}}, "sort": {{}, {"--", "*", "x"}}}})
	if err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		line string
		want bool
	}{
		{"find", true}, {"find a b", true}, {"find . -maxdepth 0 -exec touch OUT ;", false}, {"find - a", false},
		{"tar -t -f a.tar", true}, {"tar", false}, {"tar -t -f -a", false}, {"tar -t -f a.tar --checkpoint=1 --checkpoint-action=exec=touch_OUT", false}, {"tar cf OUT .", false},
		{"sort", true}, {"sort -- a x", true}, {"sort -o OUT", false}, {"sort a", false}, {"sort -- -oOUT x", false}, {"true", true}, {"true a", false},
		{"tar -t -f +x", false}, {"tar -t -f @/etc/passwd", false}, {"tar -t -f of=OUT", false}, {"tar -t -f EMPTY", false}, {"tar -t -f aLINEb", false},
		{"find /etc/x a+b x@y", true}, {"find a LINE-rf", false}, {"find a_", false},
	} {
		dir := t.TempDir()
		words := strings.Fields(c.line)
		for i, word := range words {
			words[i] = strings.NewReplacer("OUT", filepath.Join(dir, "out"), "_", " ", "EMPTY", "", "LINE", "\n").Replace(word)
		}
		h := &mcpewire.Handler{Command: words[0], Args: words[1:], Input: inputStdin}
		if got := b.allowsArgs(h); got != c.want {
			t.Errorf("%s: allowed %v, want %v", c.line, got, c.want)
		}
		err := b.run(t.Context(), &run{handler: h})
		if refused := err != nil && strings.Contains(err.Error(), "no longer takes"); refused == c.want {
			t.Errorf("%s: %v", c.line, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "out")); err == nil {
			t.Errorf("%s has written", c.line)
		}
	}
	for pattern, want := range map[string][2]bool{"*": {true, false}, "* {event}": {false, true}, "** {event}": {false, true}, "** {event},a": {true, true}, "": {}} {
		b.o.Args = map[string][][]string{"true": nil}
		for p := range strings.SplitSeq(pattern, ",") {
			b.o.Args["true"] = append(b.o.Args["true"], strings.Fields(p))
		}
		for i, input := range []string{inputStdin, inputArgs} {
			if got := b.allowsArgs(&mcpewire.Handler{Command: "true", Args: []string{"a"}, Input: input}); got != want[i] {
				t.Errorf("%q with the event as %s: allowed %v", pattern, input, got)
			}
		}
	}
	b.o.Args = nil
	if b.allowsArgs(&mcpewire.Handler{Command: "true", Input: inputArgs}) {
		t.Error("a command without arguments takes the event")
	}
	for _, args := range []map[string][][]string{{"ls": {{"*"}}}, {"find": {{"**", "a"}}}, {"find": {{"**", "{event}", "{event}"}}}, {"find": {{"{event}", "a"}}}} {
		if _, err := newBash(BashOptions{Allow: []string{"find"}, Args: args}); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}
