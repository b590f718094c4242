package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// readYAML decodes a file of the repository's root.
func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(readText(t, filepath.Join("..", "..", name))), into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// checkedOut is a repository whose module is in sub/, committed on main.
func checkedOut(t *testing.T) string {
	t.Helper()
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	args := []string{"-q", "init", filepath.Join(dir, "sub"), "--module", "example.com/demo", "--replace", checkout}
	if code := run(args, io.Discard, io.Discard, versionOf(nil)); code != exitOK {
		t.Fatalf("init: exit code %d", code)
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."}, {"commit", "-q", "-m", "Start"},
		{"update-ref", "refs/remotes/origin/main", "HEAD"}} {
		succeed(t, dir, "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
	}
	return dir
}

// TestAction runs the steps of action.yml: nothing is found in a module that is as it should be; what is wrong stops
// each, and its annotation names the file from the root of the repository.
func TestAction(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("the action needs bash, as runners have")
	}
	var action struct {
		Inputs map[string]struct{ Default string }
		Runs   struct {
			Steps []struct {
				Name, Shell, Run string
				Env              map[string]string
			}
		}
	}
	readYAML(t, "action.yml", &action)
	if got := action.Inputs["command"].Default; got != "go tool mcpe-gen" {
		t.Errorf("the action starts %q", got)
	}
	dir := checkedOut(t)
	step := func(i int) (string, error) {
		s := action.Runs.Steps[i]
		cmd := exec.CommandContext(t.Context(), s.Shell, "-e", "-c", s.Run)
		cmd.Dir, cmd.Env = dir, os.Environ()
		values := map[string]string{"MCPE_GEN": "mcpe-gen", "DIRECTORY": "sub", "AGAINST": "git:origin/main"}
		for name := range s.Env {
			if values[name] == "" {
				t.Errorf("%s: the variable %s is not known to this test", s.Name, name)
			}
			cmd.Env = append(cmd.Env, name+"="+values[name])
		}
		if strings.Contains(s.Run, "${{") {
			t.Errorf("%s: an input is part of the script", s.Name)
		}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for i, s := range action.Runs.Steps {
		if out, err := step(i); err != nil || strings.Contains(out, "::") {
			t.Errorf("%s: %v\n%s", s.Name, err, out)
		}
	}
	events := filepath.Join(dir, "sub", "events", "notes.yaml")
	text := readText(t, events)
	for i, c := range []struct{ old, new, want string }{
		{"Fires when somebody adds", "Fires when anybody adds", "::error::"},
		{"x-match: /author/name", "x-match: /author/nam", "::error file=sub/events/notes.yaml,line="},
		{"    description: Fires when", "    delivery: [poll]\n    description: Fires when", " file=sub/events/notes.yaml,line="},
	} {
		if err := os.WriteFile(events, []byte(strings.Replace(text, c.old, c.new, 1)), 0o666); err != nil {
			t.Fatal(err)
		}
		if out, err := step(i); err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: %v, want %q\n%s", action.Runs.Steps[i].Name, err, c.want, out)
		}
	}
	if len(action.Runs.Steps) != 3 {
		t.Errorf("%d steps, of which 3 were tried", len(action.Runs.Steps))
	}
}

// TestHooks runs the hooks of .pre-commit-hooks.yaml with and without something to find.
func TestHooks(t *testing.T) {
	var hooks []struct{ ID, Entry, Language, Files string }
	readYAML(t, ".pre-commit-hooks.yaml", &hooks)
	dir := filepath.Join(checkedOut(t), "sub")
	events := filepath.Join(dir, "events", "notes.yaml")
	text := readText(t, events)
	for _, broken := range []bool{false, true} {
		if broken {
			if err := os.WriteFile(events, []byte(strings.Replace(text, "/author/name", "/author/nam", 1)), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		for _, h := range hooks {
			args, ok := strings.CutPrefix(h.Entry, "go tool mcpe-gen ")
			if !ok || h.Language != "system" {
				t.Fatalf("%s starts %q", h.ID, h.Entry)
			}
			cmd := exec.CommandContext(t.Context(), "mcpe-gen", strings.Fields(args)...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); (err != nil) != broken {
				t.Errorf("%s, broken %v: %v\n%s", h.ID, broken, err, out)
			}
		}
	}
	if len(hooks) != 2 {
		t.Errorf("%d hooks", len(hooks))
	}
}

// TestReleased checks what docs/releasing.md says of the binaries.
func TestReleased(t *testing.T) {
	var config struct {
		Builds []struct {
			Main         string
			Env, Flags   []string
			Goos, Goarch []string
		}
		Checksum struct{ Algorithm string }
	}
	readYAML(t, ".goreleaser.yaml", &config)
	if len(config.Builds) != 1 {
		t.Fatalf("%d builds", len(config.Builds))
	}
	b := config.Builds[0]
	if _, err := os.Stat(filepath.Join("..", "..", b.Main, "main.go")); err != nil {
		t.Error(err)
	}
	if !slices.Equal(b.Goos, []string{"linux", "darwin", "windows"}) || !slices.Equal(b.Goarch, []string{"amd64", "arm64"}) ||
		!slices.Contains(b.Env, "CGO_ENABLED=0") || !slices.Contains(b.Flags, "-trimpath") ||
		!slices.Contains(b.Flags, "-buildvcs=true") || config.Checksum.Algorithm != "sha256" {
		t.Errorf("the configuration is %+v", config)
	}
	// What builds a release is said once, and is the same here.
	if !regexp.MustCompile(`(?m)^toolchain go1\.\d+\.\d+$`).MatchString(readText(t, "../../go.mod")) {
		t.Error("go.mod has no toolchain line")
	}
	releaser := regexp.MustCompile(`(?m)^GORELEASER = .*@(v\S+)$`).FindStringSubmatch(readText(t, "../../Makefile"))
	workflow := readText(t, "../../.github/workflows/release.yml")
	if releaser == nil || !strings.Contains(workflow, "version: "+releaser[1]+" ") {
		t.Errorf("the workflow and the Makefile run other GoReleasers: %q", releaser)
	}
	// The tags of actions can be moved: the page says which are trusted so, and a checkout leaves no credentials to the others.
	page := readText(t, "../../docs/releasing.md")
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text := readText(t, file)
		for _, m := range regexp.MustCompile(`uses: (\S+)@(\S+)`).FindAllStringSubmatch(text, -1) {
			if len(m[2]) != 40 && !strings.Contains(page, "`"+m[1]+"@"+m[2]+"`") {
				t.Errorf("%s: %s is no commit, and docs/releasing.md does not list it", file, m[0])
			}
		}
		if n := strings.Count(text, "actions/checkout@"); n != strings.Count(text, "persist-credentials: false") {
			t.Errorf("%s: %d checkouts, not all without credentials", file, n)
		}
	}
	// GoReleaser writes dist/ before it builds: not ignored, it would make the tree a changed one.
	if !strings.Contains(readText(t, "../../.gitignore"), "/dist/\n") {
		t.Error(".gitignore lacks /dist/")
	}
}
