package gen_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/gen/plugin"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/typescript"
)

// pluginMode makes a plugin of the test's program: what it does instead of testing.
const pluginMode = "MCPE_TEST_PLUGIN"

func init() {
	mode := os.Getenv(pluginMode)
	if mode == "" {
		return
	}
	var r plugin.Request
	if err := json.NewDecoder(os.Stdin).Decode(&r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	switch mode {
	case "typescript":
		answer, err := typescript.Emit(r)
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(answer)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "echo": // the options are the answer
		var text string
		if json.Unmarshal(r.Options, &text) != nil {
			text = string(r.Options)
		}
		fmt.Print(text)
	case "environment": // a file for each variable of interest
		var list []string
		for _, name := range []string{"MCPE_GEN_TOKEN", "MCPE_GEN_SECRET", "MCPE_ADMIN_TOKEN", "MCPE_TEST_OTHER"} {
			if os.Getenv(name) != "" {
				list = append(list, name)
			}
		}
		fmt.Print(files(list...))
	case "fails":
		fmt.Println(`{"files": [{"path": "half.md", "text": "half"}]}`)
		fmt.Fprintln(os.Stderr, "line 7: no such column")
		os.Exit(3)
	case "hangs": // and has a child that holds its output open
		child := exec.Command("sleep", "600")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			panic(err)
		}
		fmt.Fprintln(os.Stderr, "waiting")
		time.Sleep(time.Hour) // without cgo, select {} is a deadlock that the runtime ends
	case "latin":
		fmt.Print("{\"files\": [{\"path\": \"a\", \"text\": \"\xe4\"}]}")
	case "floods":
		fmt.Print(`{"files": [{"path": "a", "text": "`)
		io.Copy(os.Stdout, endless{})
	}
	os.Exit(0)
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// testProgram runs this test's own program as a plugin.
func testProgram(t *testing.T, mode string) plugin.Program {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return plugin.Program{Command: []string{"env", pluginMode + "=" + mode, exe}, Dir: t.TempDir()}
}

// planned is the plan of incidents in dir, with no files of its own that are of interest.
func planned(t *testing.T, dir string) *gen.Plan {
	t.Helper()
	content, err := os.ReadFile("../golden/incidents/incidents.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "incidents.yaml", string(content))
	plan, found, err := gen.Generate(t.Context(), gen.Request{Dir: dir, Files: []string{"incidents.yaml"}, TypeScript: &gen.TypeScript{Out: "ts", Emit: typescript.Parts}})
	if err != nil || plan == nil {
		t.Fatal(diagnosticText(found), err)
	}
	return plan
}

// The TypeScript emitter as a plugin, over standard input, gives the bytes that it gives in process: nothing reaches
// it but the request (PLUG-1, PLUG-3).
func TestTypeScriptAsPlugin(t *testing.T) {
	dir := t.TempDir()
	plan := planned(t, dir)
	inProcess := map[string]string{}
	for _, f := range plan.Create {
		inProcess[filepath.Base(f.Path)] = string(f.Content)
	}
	options, err := json.Marshal(typescript.Options{Emit: typescript.Parts})
	if err != nil {
		t.Fatal(err)
	}
	if found, err := plan.Plugins(t.Context(), dir, []gen.Plugin{{Name: "ts", Program: testProgram(t, "typescript"), Out: "by-plugin", Options: options}}); err != nil {
		t.Fatal(found, err)
	}
	compared := 0
	for _, f := range plan.Create {
		if filepath.Dir(f.Path) != "by-plugin" || filepath.Base(f.Path) == plugin.ListFile {
			continue
		}
		compared++
		if want := inProcess[filepath.Base(f.Path)]; string(f.Content) != want {
			t.Errorf("%s differs from what is made in process", f.Path)
		}
	}
	if compared != len(typescript.Parts)+1 {
		t.Errorf("%d files are compared", compared)
	}
}

// Files of a plugin are created, updated, left alone and deleted as ours are (PLUG-2).
func TestPluginPlan(t *testing.T) {
	dir := t.TempDir()
	run := func(answer string) string {
		t.Helper()
		plan := planned(t, dir)
		_, err := plan.Plugins(t.Context(), dir, []gen.Plugin{{Name: "tables", Program: testProgram(t, "echo"), Out: "pages", Options: json.RawMessage(answer)}})
		if err != nil {
			t.Fatal(err)
		}
		var did []string
		for word, list := range map[string][]gen.File{"create": plan.Create, "update": plan.Update, "delete": plan.Delete, "same": plan.Unchanged} {
			for _, f := range list {
				if strings.HasPrefix(f.Path, "pages") && filepath.Base(f.Path) != plugin.ListFile {
					did = append(did, word+" "+filepath.ToSlash(f.Path))
				}
			}
		}
		if err := plan.Apply(); err != nil {
			t.Fatal(err)
		}
		slices.Sort(did)
		return strings.Join(did, ", ")
	}
	write(t, dir, "pages/mine.md", "mine")
	for _, step := range []struct{ answer, want string }{
		{`{"files": [{"path": "a.md", "text": "1"}, {"path": "deep/b.md", "text": "2"}]}`, "create pages/a.md, create pages/deep/b.md"},
		{`{"files": [{"path": "a.md", "text": "3"}, {"path": "deep/b.md", "text": "2"}]}`, "same pages/deep/b.md, update pages/a.md"},
		{`{"files": [{"path": "c.md", "text": "4"}]}`, "create pages/c.md, delete pages/a.md, delete pages/deep/b.md"},
		{`{"files": []}`, "delete pages/c.md"},
	} {
		if got := run(step.answer); got != step.want {
			t.Errorf("%s: %s, want %s", step.answer, got, step.want)
		}
	}
	left, err := os.ReadDir(filepath.Join(dir, "pages"))
	if err != nil || len(left) != 2 || left[0].Name() != "deep" || left[1].Name() != "mine.md" {
		t.Errorf("left are %v, %v", left, err) // an empty directory, and what is the user's
	}
}

// What a plugin must not do is one error that names it, and nothing is written (PLUG-2).
func TestPluginFaults(t *testing.T) {
	outside := t.TempDir()
	for name, c := range map[string]struct {
		mode, answer, want string
		prepare            func(dir string)
	}{
		"fails":              {mode: "fails", want: "exit status 3; its standard error:\nline 7: no such column"},
		"hangs":              {mode: "hangs", want: "it has not answered within 3s; its standard error:\nwaiting"},
		"floods":             {mode: "floods", want: "its answer is longer than 64 MB"},
		"no JSON":            {answer: `"hello"`, want: `its answer is not {"files"`},
		"no files":           {answer: `{}`, want: "its answer has no member files"},
		"misspelt":           {answer: `{"file": []}`, want: `unknown field "file"`},
		"more":               {answer: `"{\"files\": []} {}"`, want: "its output continues after the answer"},
		"no UTF-8":           {mode: "latin", want: "its answer is not UTF-8"},
		"upwards":            {answer: files("../x.md"), want: `"../x.md" is not a path below`},
		"upwards within":     {answer: files("a/../../x.md"), want: "is not a path below"},
		"absolute":           {answer: files("/tmp/x.md"), want: `"/tmp/x.md" is not a path below`},
		"drive":              {answer: files("c:x.md"), want: "is not a path below"},
		"backslash":          {answer: files(`..\\x.md`), want: "is not a path below"},
		"empty":              {answer: files(""), want: "is not a path below"},
		"the list":           {answer: files(".mcpe-gen.json"), want: "is reserved for the list"},
		"twice":              {answer: files("a.md", "A.md"), want: "have the same name if case is ignored"},
		"file and directory": {answer: files("a", "a/b"), want: "and the directory of"},
		"severity":           {answer: `{"files": [], "diagnostics": [{"severity": "fatal", "message": "m"}]}`, want: `severity "fatal"`},
		"mute":               {answer: `{"files": [], "diagnostics": [{"severity": "note"}]}`, want: "a diagnostic has no message"},
		"a link": {answer: files("link/x.md"), want: "contains a symbolic link", prepare: func(dir string) {
			if err := os.Symlink(outside, filepath.Join(dir, "pages", "link")); err != nil {
				t.Fatal(err)
			}
		}},
		"a file of the user's": {answer: files("mine.md"), want: "was not generated by mcpe-gen", prepare: func(dir string) { write(t, dir, "pages/mine.md", "mine") }},
		"another's":            {answer: files("x.md"), want: "has the files of plugin other", prepare: func(dir string) { write(t, dir, "pages/.mcpe-gen.json", `{"plugin": "other", "files": []}`) }},
		"a list that lies": {answer: files("x.md"), want: "is damaged", prepare: func(dir string) {
			write(t, dir, "pages/.mcpe-gen.json", `{"plugin": "p", "files": ["../../victim"]}`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			plan := planned(t, dir)
			if err := os.Mkdir(filepath.Join(dir, "pages"), 0o777); err != nil {
				t.Fatal(err)
			}
			if c.prepare != nil {
				c.prepare(dir)
			}
			of := gen.Plugin{Name: "p", Out: "pages", Options: json.RawMessage(c.answer)}
			if c.mode == "" {
				c.mode = "echo"
			}
			of.Program = testProgram(t, c.mode)
			of.Program.Timeout = 5 * time.Minute // a busy machine
			if c.mode == "hangs" {
				of.Program.Timeout = 3 * time.Second // in which a busy machine has started it
			}
			_, err := plan.Plugins(t.Context(), dir, []gen.Plugin{of})
			if err == nil || !strings.HasPrefix(err.Error(), "plugin p: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
			if left, _ := os.ReadDir(outside); len(left) > 0 {
				t.Errorf("outside is %v", left)
			}
		})
	}
	_, err := planned(t, t.TempDir()).Plugins(t.Context(), "", []gen.Plugin{{Name: "p", Out: "pages", Program: plugin.Program{Command: []string{"no-such-program-here"}}}})
	if !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("a program that is not there: %v", err)
	}
}

// A plugin gets the environment of the command without the command's secrets (PLUG-2).
func TestPluginsGetNoSecrets(t *testing.T) {
	for _, name := range []string{"MCPE_GEN_TOKEN", "MCPE_GEN_SECRET", "MCPE_ADMIN_TOKEN", "MCPE_TEST_OTHER"} {
		t.Setenv(name, "hush")
	}
	answer, err := testProgram(t, "environment").Run(t.Context(), plugin.Request{})
	if err != nil || len(answer.Files) != 1 || answer.Files[0].Path != "MCPE_TEST_OTHER" {
		t.Errorf("a plugin sees %+v, %v", answer.Files, err)
	}
}

func files(paths ...string) string {
	var list []string
	for _, p := range paths {
		list = append(list, `{"path": "`+p+`", "text": ""}`)
	}
	return `{"files": [` + strings.Join(list, ", ") + `]}`
}

// What a plugin says of event files has its place and severity (PLUG-1).
func TestPluginDiagnostics(t *testing.T) {
	dir := t.TempDir()
	plan := planned(t, dir)
	const answer = `{"files": [], "diagnostics": [
		{"severity": "warning", "code": "W1", "message": "long", "pos": "incidents.yaml:11:11"}, {"severity": "error", "message": "wrong"}]}`
	found, err := plan.Plugins(t.Context(), dir, []gen.Plugin{{Name: "p", Program: testProgram(t, "echo"), Out: "pages", Options: json.RawMessage(answer)}})
	if err != nil || len(found) != 2 || !source.HasErrors(found) {
		t.Fatal(found, err)
	}
	if got := found[1].String(); got != "incidents.yaml:11:11: warning MCPE310: plugin p: W1: long" {
		t.Error(got)
	}
}

// The example plugin writes dataclasses that Python takes; with under 100 lines it shows the protocol (PLUG-4).
func TestExamplePlugin(t *testing.T) {
	text, err := os.ReadFile("../examples/plugins/dataclasses.py")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n >= 100 {
		t.Errorf("the example has %d lines", n)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("MCPE_TEST_PYTHON_REQUIRED") != "" {
			t.Fatal("there is no python3, and MCPE_TEST_PYTHON_REQUIRED is set")
		}
		t.Skip("NOT RUN: there is no Python")
	}
	script, err := filepath.Abs("../examples/plugins/dataclasses.py")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	plan := planned(t, dir)
	of := gen.Plugin{Name: "dataclasses", Out: "python", Program: plugin.Program{Command: []string{python, script}, Dir: dir}}
	if found, err := plan.Plugins(t.Context(), dir, []gen.Plugin{of}); err != nil {
		t.Fatal(found, err)
	}
	if err := plan.Apply(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-c", `
import incidents, typing
p = incidents.IncidentCreatedPayload(incidentId="i", severity="P1", openedAt="t", reporter=incidents.Person(id="u"))
assert p.service is None and p.reporter.id == "u", p
assert incidents.PAYLOADS["incident.created"] is incidents.IncidentCreatedPayload
print(typing.get_type_hints(incidents.IncidentCreatedPayload)["reporter"])`)
	cmd.Dir = filepath.Join(dir, "python")
	out, err := cmd.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "typing.Optional[incidents.Person]" {
		t.Errorf("%v\n%s", err, out)
	}
}

// PLUG-5: the files of a plugin are its program, and what its arguments name.
func TestPluginFiles(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"tool", "lib/a.py", "lib/b.py", "lib/deep/c.py"} {
		write(t, dir, f, "")
	}
	elsewhere := filepath.Join(t.TempDir(), "x")
	write(t, filepath.Dir(elsewhere), "x", "")
	program, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ command, want []string }{
		{[]string{"./tool", "lib", "--lib", "nothing"}, []string{"tool", "lib/a.py", "lib/b.py"}},
		{[]string{"./coming"}, []string{"coming"}},
		{[]string{"no-such-program-anywhere", "tool"}, []string{"tool"}},
		{[]string{"go", elsewhere, "lib/deep/c.py"}, []string{program, elsewhere, "lib/deep/c.py"}},
	} {
		var want []string
		for _, f := range c.want {
			if !filepath.IsAbs(f) {
				f = filepath.Join(dir, f)
			}
			want = append(want, f)
		}
		if got := (plugin.Program{Command: c.command, Dir: dir}).Files(); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", c.command, got, want)
		}
	}
}
