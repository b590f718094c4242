package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
)

// inShell runs a line of what init says comes next, in a directory and with the environment of a user who has set
// nothing of Go's.
func inShell(t *testing.T, dir, line string, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir = dir
	cmd.Env = append(append(cmd.Environ(), "GOFLAGS=", "GOPROXY=off", "GOWORK="), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return strings.TrimSpace(string(out))
}

// E11: what init says comes next works below a go.work, in a module that is there: the workspace builds what it wrote.
func TestAdoptWorkspace(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it builds a server")
	}
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOWORK", "")
	root := t.TempDir()
	dir := filepath.Join(root, "the app")
	if err := os.CopyFS(dir, os.DirFS("testdata/adopt/before")); err != nil {
		t.Fatal(err)
	}
	write(t, root, map[string]string{"go.work": "go 1.24\n\nuse ./lib\n", "lib/go.mod": "module example.com/lib\n\ngo 1.24\n", "lib/lib.go": "package lib\n"})
	var stdout, stderr bytes.Buffer
	if code := run([]string{"init", dir, "--replace", checkout}, &stdout, &stderr, cli.VersionOf(nil)); code != cli.OK {
		t.Fatalf("init: exit code %d\n%s", code, &stderr)
	}
	_, said, _ := strings.Cut(stdout.String(), "\nNext:\n  ")
	next := strings.Split(strings.TrimSpace(said), "\n  ")
	if want := []string{"cd '" + dir + "'", "go work use .", "go mod tidy", "go mod tidy -C tools", "GOWORK=off go generate", "go build ./..."}; !slices.Equal(next, want) {
		t.Fatalf("next are %q, want %q", next, want)
	}
	resolve(t, dir)
	generated := filepath.Join(dir, "internal", "notes", "notesserver", "tools.json")
	if err := os.Remove(generated); err != nil {
		t.Fatal(err)
	}
	inShell(t, root, strings.Join([]string{next[0], next[1], next[4], next[5]}, " && "))
	if _, err := os.Stat(generated); err != nil {
		t.Errorf("%s did not generate: %v", next[4], err)
	}
	if got := strings.Fields(inShell(t, dir, "go list -m")); !slices.Contains(got, "example.com/tickets") || !slices.Contains(got, "example.com/lib") {
		t.Errorf("the modules of the workspace are %q", got)
	}
}

// In a module with a vendor directory, "go generate" runs the generator, which is not vendored.
func TestAdoptVendored(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it builds the generator")
	}
	from := t.TempDir()
	if err := os.CopyFS(from, os.DirFS("testdata/adopt/before")); err != nil {
		t.Fatal(err)
	}
	write(t, from, map[string]string{"vendor/modules.txt": "# example.com/x v1.0.0\n"})
	dir, said := adoptCopy(t, from)
	if !strings.Contains(said, "\n  go mod tidy -C tools\n  go mod vendor\n  go build ./...\n") {
		t.Errorf("init says\n%s", said)
	}
	resolve(t, dir)
	goRun(t, dir, "mod", "vendor")
	generated := filepath.Join(dir, "internal", "notes", "notesserver", "tools.json")
	if err := os.Remove(generated); err != nil {
		t.Fatal(err)
	}
	inShell(t, dir, "go generate")
	if _, err := os.Stat(generated); err != nil {
		t.Errorf("go generate did not generate: %v", err)
	}
}

// E11: the vendor directory that Go uses is the one that is brought up to date, by a command that Go takes there.
func TestVendoring(t *testing.T) {
	const mod, vendored, shared = "module example.com/m\n\ngo 1.24\n", "# example.com/x v1.0.0\n", "## workspace\n"
	t.Setenv("GOENV", filepath.Join(t.TempDir(), "env"))
	t.Setenv("GOWORK", "")
	for name, c := range map[string]struct {
		files map[string]string
		off   bool
		want  []string
	}{
		"no vendor directory":         {files: map[string]string{"go.work": "go 1.24\n"}, want: []string{"go work use ."}},
		"a module":                    {files: map[string]string{"m/vendor/modules.txt": vendored}, want: []string{"go mod vendor"}},
		"a workspace":                 {files: map[string]string{"go.work": "go 1.24\n", "vendor/modules.txt": shared}, want: []string{"go work use .", "go work vendor"}},
		"a module in a workspace":     {files: map[string]string{"go.work": "go 1.24\n", "m/vendor/modules.txt": vendored}, want: []string{"go work use .", "GOWORK=off go mod vendor"}},
		"both":                        {files: map[string]string{"go.work": "go 1.24\n", "vendor/modules.txt": shared, "m/vendor/modules.txt": vendored}, want: []string{"go work use .", "go work vendor", "GOWORK=off go mod vendor"}},
		"a workspace in one place":    {files: map[string]string{"m/go.work": "go 1.24\n", "m/vendor/modules.txt": shared}, want: []string{"go work use .", "go work vendor"}},
		"a workspace is switched off": {files: map[string]string{"go.work": "go 1.24\n", "vendor/modules.txt": shared}, off: true},
		"its vendor directory too":    {files: map[string]string{"m/go.work": "go 1.24\n", "m/vendor/modules.txt": shared}, off: true},
		"a later Go":                  {files: map[string]string{"go.work": "go 1.999\n", "m/go.mod": "module example.com/m\n\ngo 1.999\n"}, want: []string{"go work use ."}},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, "m")
			write(t, root, map[string]string{"m/go.mod": mod, "m/m.go": "package m\n", "m/tools/go.mod": mod})
			write(t, root, c.files)
			env := "GOENV=" + os.Getenv("GOENV")
			if c.off { // in the file that the go command reads, where the environment says nothing
				env = "GOENV=" + filepath.Join(root, "env")
				write(t, root, map[string]string{"env": "GOWORK=off\n"})
				t.Setenv("GOENV", filepath.Join(root, "env"))
			}
			next := firstCommands(t.Context(), dir, "tools")[1:]
			tidy, want := []string{"go mod tidy", "go mod tidy -C tools"}, slices.Clone(c.want)
			if slices.Contains(want, "go work use .") {
				want = append(slices.Insert(want, 1, tidy...), "GOWORK=off go generate")
			} else {
				want = append(tidy, want...)
			}
			if !slices.Equal(next, want) {
				t.Fatalf("next are %q, want %q", next, want)
			}
			if name == "a later Go" || runtime.GOOS == "windows" {
				return
			}
			for _, line := range next {
				inShell(t, dir, line, env)
			}
		})
	}
}

// A directory is one word of the shell, whatever its name is.
func TestShellWord(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no POSIX shell")
	}
	root := t.TempDir()
	for name, want := range map[string]string{"demo": "demo", "a/b_c.d-1": "a/b_c.d-1", "Grüße": "Grüße", "my notes": "'my notes'", "it's": `'it'\''s'`,
		"$HOME": "'$HOME'", "~": "'~'", "a;b": "'a;b'", "-p": "./-p", "*": "'*'", "new\nline": "'new\nline'"} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o777); err != nil {
			t.Fatal(err)
		}
		if got := shellWord(name); got != want {
			t.Errorf("shellWord(%q) = %s, want %s", name, got, want)
		}
		if got, want := inShell(t, root, "cd "+shellWord(name)+" && pwd -P"), inShell(t, filepath.Join(root, name), "pwd -P"); got != want {
			t.Errorf("cd goes to %s, want %s", got, want)
		}
	}
}

// write writes files below a directory.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
