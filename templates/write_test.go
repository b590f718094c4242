package templates

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func done() error { return nil }

func TestWriteNeverOverwrites(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "internal", "notes"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte("mine"), 0o666); err != nil {
		t.Fatal(err)
	}
	files := []File{{Path: "a/b.txt", Content: []byte("b")}, {Path: "main.go", Content: []byte("theirs")}}
	_, err := Write(dir, files, done, "internal/notes", "internal/other")
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
	if _, err := Write(filepath.Join(dir, "new"), files, done); err != nil {
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
	present, err := Write(dir, files, done)
	if err != nil || !slices.Equal(present.Kept, []string{"README.md", ".gitattributes"}) || !slices.Equal(present.Extended, []string{".gitignore"}) {
		t.Fatalf("%+v, %v", present, err)
	}
	for name, want := range map[string]string{"README.md": "mine", ".gitignore": "*.test\n/bin\n/demo\n", ".gitattributes": "* text=auto\n", "main.go": "package main\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
}

// below are the paths below a directory, with a slash at the end of directories and what is in files.
func below(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		switch {
		case d.IsDir():
			all[filepath.ToSlash(rel)+"/"] = ""
		case d.Type()&fs.ModeSymlink != 0:
			all[filepath.ToSlash(rel)], err = os.Readlink(name)
		default:
			var text []byte
			text, err = os.ReadFile(name)
			all[filepath.ToSlash(rel)] = string(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// E13: nothing is half-written, whatever cannot be written and whenever that shows.
func TestWriteAllOrNothing(t *testing.T) {
	files := []File{{Path: ".gitattributes", Content: []byte("* text=auto\n")}, {Path: ".gitignore", Content: []byte("/demo\n")}, {Path: "README.md", Content: []byte("theirs")},
		{Path: "events/notes.yaml", Content: []byte("version: 1\n")}, {Path: "main.go", Content: []byte("package main\n")}, {Path: "web/src/listen.ts", Content: []byte("export {}\n")}}
	failed := errors.New("it does not generate")
	for name, c := range map[string]struct {
		before func(dir string) error
		then   func(dir string) error
		want   string
	}{
		"a list is a directory": {before: func(dir string) error { return os.Mkdir(filepath.Join(dir, ".gitignore"), 0o777) },
			want: ".gitignore is not a regular file, and would get lines; nothing was written"},
		"a list is a link": {before: func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "ignored"), []byte("/mine\n"), 0o666), os.Symlink("ignored", filepath.Join(dir, ".gitignore")))
		}, want: ".gitignore is not a regular file, and would get lines; nothing was written"},
		"a directory is a file": {before: func(dir string) error { return os.WriteFile(filepath.Join(dir, "web"), nil, 0o666) },
			want: "nothing was written"},
		"a directory leads out": {before: func(dir string) error { return os.Symlink("../outside", filepath.Join(dir, "web")) },
			want: "web/src/listen.ts: path escapes from parent; nothing was written"},
		"a directory leads nowhere": {before: func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("/mine"), 0o666), os.Symlink("nowhere", filepath.Join(dir, "web")))
		}, want: "web"},
		"what comes then fails": {before: func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "events"), 0o777), os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("/mine"), 0o666))
		}, then: func(dir string) error {
			if _, err := os.Stat(filepath.Join(dir, "web", "src", "listen.ts")); err != nil {
				return err
			}
			return errors.Join(os.MkdirAll(filepath.Join(dir, "internal", "notes", "more"), 0o777),
				os.WriteFile(filepath.Join(dir, "internal", "notes", "mcpe.go"), nil, 0o666), failed)
		}, want: failed.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, "demo")
			for _, d := range []string{dir, filepath.Join(root, "outside")} {
				if err := os.Mkdir(d, 0o777); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.before(dir); err != nil {
				t.Fatal(err)
			}
			want := below(t, root)
			_, err := Write(dir, files, func() error {
				if c.then == nil {
					return nil
				}
				return c.then(dir)
			}, "internal/notes")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if got := below(t, root); !maps.Equal(got, want) {
				t.Errorf("there is\n%q\nand there was\n%q", got, want)
			}
		})
	}
	// A directory that was made for it goes too; one in which somebody has put something stays.
	root := t.TempDir()
	dir := filepath.Join(root, "a", "b")
	if _, err := Write(dir, files, func() error { return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
	if got := below(t, root); len(got) > 0 {
		t.Errorf("there is %q", got)
	}
	if _, err := Write(dir, files, func() error {
		return errors.Join(failed, os.WriteFile(filepath.Join(dir, "events", "mine"), []byte("mine"), 0o666))
	}); !errors.Is(err, failed) {
		t.Error(err)
	}
	if got := below(t, root); !maps.Equal(got, map[string]string{"a/": "", "a/b/": "", "a/b/events/": "", "a/b/events/mine": "mine"}) {
		t.Errorf("there is %q", got)
	}
}

// Links that stay within the directory are followed, and a README.md is kept whatever it is.
func TestWriteThroughLinks(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "shared"), 0o777), os.Symlink("shared", filepath.Join(dir, "events")),
		os.Symlink("../elsewhere/README.md", filepath.Join(dir, "README.md"))); err != nil {
		t.Fatal(err)
	}
	present, err := Write(dir, []File{{Path: "README.md", Content: []byte("theirs")}, {Path: "events/notes.yaml", Content: []byte("version: 1\n")}}, done)
	if err != nil || !slices.Equal(present.Kept, []string{"README.md"}) {
		t.Fatalf("%+v, %v", present, err)
	}
	if got := below(t, dir); !maps.Equal(got, map[string]string{"README.md": "../elsewhere/README.md", "events": "shared", "shared/": "", "shared/notes.yaml": "version: 1\n"}) {
		t.Errorf("there is %q", got)
	}
}
