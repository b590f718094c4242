package templates

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCheckModule(t *testing.T) {
	for _, good := range []string{"demo", "example.com/demo", "example.com/a_b/c-d/v2", "example.com/~user/x.y"} {
		if err := CheckModule(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "/", "a//b", "a/", "a./b", "a.", "a b", "a\nreplace x => y", "example.com/ü", runtimePath} {
		if CheckModule(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestProgramName(t *testing.T) {
	for in, want := range map[string]string{
		"example.com/demo":    "demo",
		"example.com/demo/v2": "demo",
		"demo":                "demo",
		"v2":                  "v2",
		"/tmp/My Notes (old)": "My-Notes-old",
		"/":                   "server",
	} {
		if got := ProgramName(in); got != want {
			t.Errorf("ProgramName(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestReplacement(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	for dir, mod := range map[string]string{"checkout": "module " + runtimePath + "\n", "with space": "module " + runtimePath + "\n", "other": "module example.com/other\n", "empty": ""} {
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if mod == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	absolute := filepath.Join(root, "checkout")
	for _, c := range []struct{ dir, checkout, want, err string }{
		{"demo", "checkout", "../checkout", ""},
		{"a/b", "./checkout/", "../../checkout", ""},
		{".", "checkout", "./checkout", ""},
		{"checkout/examples/x", "checkout", "../..", ""},
		{"demo", absolute, absolute, ""},
		{"demo", "with space", `"../with space"`, ""},
		{"demo", "other", "", "is not " + runtimePath},
		{"demo", "empty", "", "has no go.mod"},
		{"demo", "missing", "", "has no go.mod"},
	} {
		got, err := Replacement(c.dir, c.checkout)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("Replacement(%q, %q) = %q, %v; want %q, %q", c.dir, c.checkout, got, err, c.want, c.err)
		}
	}
}

func TestWriteNeverOverwrites(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "internal", "notes"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte("mine"), 0o666); err != nil {
		t.Fatal(err)
	}
	files := []File{{Path: "a/b.txt", Content: []byte("b")}, {Path: "main.go", Content: []byte("theirs")}}
	_, err := Write(dir, files, "internal/notes", "internal/other")
	exists, ok := errors.AsType[*ExistsError](err)
	if !ok || !slices.Equal(exists.Paths, []string{"main.go", "internal/notes"}) {
		t.Fatalf("got %v, want an ExistsError for main.go and internal/notes", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "a")); err == nil {
		t.Error("something was written")
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "main.go")); string(got) != "mine" {
		t.Errorf("main.go is now %q", got)
	}
	if _, err := Write(filepath.Join(dir, "new"), files); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "new", "a", "b.txt")); string(got) != "b" {
		t.Errorf("a/b.txt is %q", got)
	}
}

// E13: what a forge puts into a new repository stays, and its lists get the lines that they lack.
func TestWriteBesideAForge(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"README.md": "mine", ".gitignore": "*.test\n/bin", ".gitattributes": "* text=auto\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	files := []File{{Path: "README.md", Content: []byte("theirs")}, {Path: ".gitignore", Content: []byte("# What is built.\n/demo\n*.test\n")},
		{Path: ".gitattributes", Content: []byte("* text=auto\n")}, {Path: "main.go", Content: []byte("package main\n")}}
	present, err := Write(dir, files)
	if err != nil || !slices.Equal(present.Kept, []string{"README.md", ".gitattributes"}) || !slices.Equal(present.Extended, []string{".gitignore"}) {
		t.Fatalf("%+v, %v", present, err)
	}
	for name, want := range map[string]string{"README.md": "mine", ".gitignore": "*.test\n/bin\n/demo\n", ".gitattributes": "* text=auto\n", "main.go": "package main\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
}
