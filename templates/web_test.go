package templates_test

import (
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/templates"
)

// web returns the files in web/ of a scaffold with TypeScript, by their names.
func web(t *testing.T) map[string]string {
	t.Helper()
	files, err := templates.Render(templates.Scaffold{
		Module: "example.com/demo", Name: "demo", Transport: "http", Source: "emit", GoVersion: "1.26.0", TypeScript: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, f := range files {
		if name, ok := strings.CutPrefix(f.Path, "web/"); ok {
			all[name] = string(f.Content)
		}
	}
	return all
}

// The lock file of web/ is that of its package.json: npm ci refuses another (TS-7). To make it again, see the comment in
// this test.
func TestLockFile(t *testing.T) {
	// In a copy of web/ whose package.json has the name NAME-listen: npm install --package-lock-only --ignore-scripts, then
	// write {{.Name}} instead of NAME.
	type dependencies struct {
		Name                          string
		Dependencies, DevDependencies map[string]string
	}
	type locked struct{ Version, Integrity string }
	var wanted dependencies
	var lock struct {
		Name            string
		LockfileVersion int
		Packages        map[string]json.RawMessage
	}
	files := web(t)
	for name, into := range map[string]any{"package.json": &wanted, "package-lock.json": &lock} {
		if err := json.Unmarshal([]byte(files[name]), into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	var root dependencies
	if err := json.Unmarshal(lock.Packages[""], &root); err != nil {
		t.Fatal(err)
	}
	if lock.Name != wanted.Name || root.Name != wanted.Name || !maps.Equal(root.Dependencies, wanted.Dependencies) || !maps.Equal(root.DevDependencies, wanted.DevDependencies) {
		t.Errorf("package-lock.json is of %+v, package.json has %+v", root, wanted)
	}
	if lock.LockfileVersion != 3 {
		t.Errorf("the lock file has version %d", lock.LockfileVersion)
	}
	for name, text := range lock.Packages {
		var l locked
		if err := json.Unmarshal(text, &l); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name != "" && (l.Version == "" || !strings.HasPrefix(l.Integrity, "sha512-")) {
			t.Errorf("%s is locked to %+v", name, l)
		}
	}
	for _, of := range []map[string]string{wanted.Dependencies, wanted.DevDependencies} {
		for name, version := range of {
			var l locked
			if err := json.Unmarshal(lock.Packages["node_modules/"+name], &l); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			major, _, _ := strings.Cut(strings.TrimPrefix(version, "^"), ".")
			if !strings.HasPrefix(l.Version, major+".") {
				t.Errorf("%s is locked to %s, and package.json wants %s", name, l.Version, version)
			}
		}
	}
}

// The program in web/ keeps its cursors as the tested example does (TS-8).
func TestCursorsOfExample(t *testing.T) {
	example, err := os.ReadFile("../examples/typescript/cursors.ts")
	if err != nil {
		t.Fatal(err)
	}
	if web(t)["src/cursors.ts"] != string(example) {
		t.Error("templates/typescript/web/src/cursors.ts.tmpl is not examples/typescript/cursors.ts")
	}
}
