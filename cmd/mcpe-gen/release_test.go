package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
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
	if code := run(args, io.Discard, io.Discard, cli.VersionOf(nil)); code != cli.OK {
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
	if got := action.Inputs["command"].Default; got != "go tool -modfile=tools/go.mod mcpe-gen" {
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
		{"Fires when somebody adds", "Fires when anybody adds", "::error file=sub/internal/notes/notes.mcpe.go::"},
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
			args, ok := strings.CutPrefix(h.Entry, "go tool -modfile=tools/go.mod mcpe-gen ")
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
		Sboms    []struct{ Artifacts, Cmd string }
		Signs    []struct{ Artifacts, Cmd string }
	}
	readYAML(t, ".goreleaser.yaml", &config)
	dist := readText(t, "../../.ci/dist")
	commands, err := filepath.Glob("../*/main.go")
	if err != nil || len(config.Builds) != len(commands) {
		t.Fatalf("%d builds of %d commands, error: %v", len(config.Builds), len(commands), err)
	}
	for _, b := range config.Builds {
		if _, err := os.Stat(filepath.Join("..", "..", b.Main, "main.go")); err != nil || !strings.Contains(dist, b.Main) {
			t.Errorf("%s is not a command, or .ci/dist does not build it: %v", b.Main, err)
		}
		if !slices.Equal(b.Goos, []string{"linux", "darwin", "windows"}) || !slices.Equal(b.Goarch, []string{"amd64", "arm64"}) ||
			!slices.Contains(b.Env, "CGO_ENABLED=0") || !slices.Contains(b.Flags, "-trimpath") ||
			!slices.Contains(b.Flags, "-buildvcs=true") || config.Checksum.Algorithm != "sha256" {
			t.Errorf("the configuration is %+v", config)
		}
	}
	// What builds a release is said once, and is the same here.
	if !regexp.MustCompile(`(?m)^toolchain go1\.\d+\.\d+$`).MatchString(readText(t, "../../go.mod")) {
		t.Error("go.mod has no toolchain line")
	}
	makefile, workflow := readText(t, "../../Makefile"), readText(t, "../../.github/workflows/release.yml")
	for _, program := range []string{"GORELEASER", "CYCLONEDX", "COSIGN"} {
		if !regexp.MustCompile(`(?m)^` + program + ` = \S+@v\d+\.\d+\.\d+$`).MatchString(makefile) {
			t.Errorf("the Makefile does not pin %s", program)
		}
	}
	if !strings.Contains(workflow, "run: make release\n") || !strings.Contains(workflow, "id-token: write") || !strings.Contains(workflow, "subject-checksums: dist/checksums.txt") {
		t.Errorf("the workflow neither releases nor attests: %s", workflow)
	}
	// Nothing that can sign or publish starts before the actions of its workflow are found to be pinned.
	for name, job := range map[string]string{"release": "release", "npm": "publish"} {
		var workflow struct {
			Permissions map[string]string
			Jobs        map[string]struct {
				Needs string
				Steps []struct{ Uses, Run string }
			}
		}
		readYAML(t, ".github/workflows/"+name+".yml", &workflow)
		steps, guarded := workflow.Jobs[job].Steps, workflow.Jobs[job].Needs == "pinned"
		if guarded {
			steps = workflow.Jobs["pinned"].Steps
		} else {
			guarded = !slices.ContainsFunc(steps, func(s struct{ Uses, Run string }) bool { return s.Uses != "" })
		}
		if !guarded || len(steps) < 2 || steps[1].Run != ".ci/pinned" || workflow.Permissions["contents"] != "read" {
			t.Errorf("%s.yml does not check its actions first: %+v", name, workflow)
		}
	}
	if npm := readText(t, "../../.github/workflows/npm.yml"); !strings.Contains(npm, "id-token: write") || !strings.Contains(npm, ".ci/publish-npm") {
		t.Errorf("the workflow does not publish with provenance: %s", npm)
	}
	if len(config.Sboms) != 1 || config.Sboms[0].Artifacts != "binary" || config.Sboms[0].Cmd != "cyclonedx-gomod" ||
		len(config.Signs) != 1 || config.Signs[0].Artifacts != "checksum" || config.Signs[0].Cmd != "cosign" {
		t.Errorf("SBOMs and signatures are %+v and %+v", config.Sboms, config.Signs)
	}
	if strings.Contains(readText(t, "../../go.mod"), "replace ") {
		t.Error("go.mod replaces a module, so that go install refuses it")
	}
	// The tags of actions can be moved: the page says which are trusted so, and a checkout leaves no credentials to the
	// others.
	page := readText(t, "../../docs/releasing.md")
	var files []string
	for _, pattern := range []string{".github/workflows/*.yml", "templates/common/github/workflows/*", "templates/common/Dockerfile.tmpl", "examples/*/Dockerfile", "examples/*/compose.yaml"} {
		found, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(pattern)))
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		files = append(files, found...)
	}
	commit := regexp.MustCompile(`@[0-9a-f]{40}$|@sha256:[0-9a-f]{64}$`)
	for _, file := range files {
		text := readText(t, file)
		for _, m := range regexp.MustCompile(`(?m)(?:uses:|image:|^FROM) (\S+)`).FindAllStringSubmatch(text, -1) {
			// The Go release of a scaffold is that of the go.mod beside it; ./ is this repository.
			if name := m[1]; !commit.MatchString(name) && name != "./" && name != "golang:{{.GoRelease}}" && !strings.Contains(page, "`"+name+"`") {
				t.Errorf("%s: %s is no digest, and docs/releasing.md does not list it", file, name)
			}
		}
		if n := strings.Count(text, "actions/checkout@"); strings.Contains(file, ".github") && n != strings.Count(text, "persist-credentials: false") {
			t.Errorf("%s: %d checkouts, not all without credentials", file, n)
		}
	}
	// GoReleaser writes dist/ before it builds: not ignored, it would make the tree a changed one.
	if !strings.Contains(readText(t, "../../.gitignore"), "/dist/\n") {
		t.Error(".gitignore lacks /dist/")
	}
}

// TestPinned runs .ci/pinned on workflows with and without actions that can be moved.
func TestPinned(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the script is for a POSIX shell")
	}
	commit := strings.Repeat("0123456789abcdef0123", 2)
	for text, want := range map[string]bool{
		"steps:\n  - run: make\n  # uses: a/b@v1\n": true,
		"  - uses: a/b@" + commit + "\n":            true,
		"    uses: a/b/c@" + commit + " # v1.2.3\n": true,
		"  - uses: a/b@v1\n":                        false,
		"  - uses: a/b@main # " + commit + "\n":     false,
		"  - uses: a/b@" + commit[1:] + "\n":        false,
		"  - uses: a/b@" + commit + "0\n":           false,
		"  - uses: docker://a/b:1\n":                false,
		"  - \"uses\" : a/b@v1\n":                   false,
		"  - {name: x, uses: a/b@v1}\n":             false,
	} {
		file := filepath.Join(t.TempDir(), "workflow.yml")
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "../../.ci/pinned", file).CombinedOutput()
		if (err == nil) != want || !want && !strings.Contains(string(out), file+":1:") {
			t.Errorf("%q: %v\n%s", text, err, out)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "../../.ci/pinned", "absent.yml").CombinedOutput(); err == nil {
		t.Errorf("a workflow that does not exist is accepted: %s", out)
	}
}

// TestPublishNPM runs .ci/publish-npm with an npm that prints what it is asked.
func TestPublishNPM(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the script is for a POSIX shell")
	}
	for _, test := range []struct{ version, ref, want string }{
		{"v1.2.3", "v1.2.3", "publish ./dist/npm/mcpe-gen-linux-x64-1.2.3.tgz --provenance --tag latest\n" +
			"@mcpe-gen/win32-x64@1.2.3 is published already\n" +
			"publish ./dist/npm/mcpe-gen-1.2.3.tgz --provenance --tag latest\n"},
		{"v1.2.3-rc.1", "v1.2.3-rc.1", "publish ./dist/npm/mcpe-gen-linux-x64-1.2.3-rc.1.tgz --provenance --tag next\n" +
			"publish ./dist/npm/mcpe-gen-win32-x64-1.2.3-rc.1.tgz --provenance --tag next\n" +
			"publish ./dist/npm/mcpe-gen-1.2.3-rc.1.tgz --provenance --tag next\n"},
		{"v1.2.3", "v1.2.4", "publish-npm: dist has version 1.2.3, and the release is v1.2.4"},
		{"v1.2.3", "", "publish-npm: dist has version 1.2.3, and the release is unknown"},
	} {
		dir := t.TempDir()
		number := strings.TrimPrefix(test.version, "v")
		for name, text := range map[string]string{
			".ci/publish-npm": readText(t, "../../.ci/publish-npm"),
			"dist/VERSION":    test.version + "\n",
			"bin/npm":         "#!/bin/sh\n[ \"$1\" = view ] || echo \"$@\"\ncase \"$*\" in *win32-x64@1.2.3\\ version) echo 1.2.3 ;; esac\n",
			"dist/npm/x":      "",
		} {
			path := filepath.Join(dir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		for file, name := range map[string]string{"mcpe-gen": "mcpe-gen", "mcpe-gen-linux-x64": "@mcpe-gen/linux-x64", "mcpe-gen-win32-x64": "@mcpe-gen/win32-x64"} {
			pack := filepath.Join(dir, "package", "package.json")
			if err := os.MkdirAll(filepath.Dir(pack), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(pack, []byte("{\n  \"name\": \""+name+"\",\n  \"version\": \""+number+"\"\n}\n"), 0o666); err != nil {
				t.Fatal(err)
			}
			succeed(t, dir, "tar", "-czf", "dist/npm/"+file+"-"+number+".tgz", "package/package.json")
		}
		cmd := exec.CommandContext(t.Context(), "sh", ".ci/publish-npm")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "GITHUB_REF_NAME="+test.ref)
		out, err := cmd.CombinedOutput()
		if refused := strings.HasPrefix(test.want, "publish-npm:"); (err != nil) != refused || !strings.HasPrefix(string(out), test.want) || !refused && string(out) != test.want {
			t.Errorf("%s of %q: %v\ngot  %s\nwant %s", test.version, test.ref, err, out, test.want)
		}
	}
}

// TestTag runs .ci/tag in a repository of two modules: all are tagged at one commit, which requires the version, or
// nothing is.
func TestTag(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the script is for a POSIX shell")
	}
	dir := t.TempDir()
	const below = "runtime/store/jetstream"
	for name, text := range map[string]string{
		".ci/tag":         readText(t, "../../.ci/tag"),
		"go.mod":          "module github.com/mcpe-gen/mcpe-gen\n\ngo 1.26.0\n",
		below + "/go.mod": "module github.com/mcpe-gen/mcpe-gen/" + below + "\n\ngo 1.26.0\n\nrequire github.com/mcpe-gen/mcpe-gen v0.0.0\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	tag := func(version, want string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", ".ci/tag", version)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
			"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
		out, err := cmd.CombinedOutput()
		if !strings.Contains(string(out), want) || (err != nil) == strings.HasPrefix(want, "next:") {
			t.Errorf("%s: %v, want %q\n%s", version, err, want, out)
		}
	}
	succeed(t, dir, "git", "init", "-q", "-b", "main")
	tag("v0.1.0", "not committed")
	succeed(t, dir, "git", "add", ".")
	succeed(t, dir, "git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "Start")
	tag("0.1.0", "is no version")
	tag("v0.1.0", "next: git push --atomic origin HEAD v0.1.0 "+below+"/v0.1.0\n")
	tag("v0.1.0", "v0.1.0 is there already")
	if got := succeed(t, dir, "git", "tag", "--points-at", "HEAD"); got != below+"/v0.1.0\nv0.1.0\n" {
		t.Errorf("the tags of HEAD are %q", got)
	}
	if got := succeed(t, dir, "git", "show", "HEAD:"+below+"/go.mod"); !strings.Contains(got, "mcpe-gen v0.1.0\n") {
		t.Errorf("its go.mod is\n%s", got)
	}
}
