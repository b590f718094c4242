package repocheck

import (
	"errors"
	"flag"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

var (
	update = flag.Bool("update", false, "rewrite testdata/english.txt")
	raise  = flag.Bool("raise", false, "let -update raise rows of testdata/english.txt")
	places = flag.String("places", "", "print every habit that TestEnglish finds in an `area` or package directory")
)

// A file is a source file of the repository. Its path is relative to the root and has slashes.
type file struct{ path, text string }

// files reads the files of the repository that have one of the extensions. It leaves out files that git ignores, and
// directories with one of the names that skip lists.
func files(t *testing.T, skip []string, extensions ...string) (found []file) {
	t.Helper()
	needsRepository(t)
	paths := strings.Split(git(t, root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00")
	watch(paths)
	slices.Sort(paths)
	for _, p := range slices.Compact(paths) { // git lists a file in conflict several times
		if !slices.Contains(extensions, path.Ext(p)) || inside(p, skip) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(p)))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the work tree has deleted it
		}
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, file{p, string(text)})
	}
	if len(found) == 0 {
		t.Fatalf("git lists no files with %v", extensions)
	}
	return found
}

// watch looks at the directories of files. It keeps go test from reusing a result after a directory has got a new file,
// because go test sees which files a test looks at, but not which files git looks at.
func watch(paths []string) {
	seen := map[string]bool{}
	for _, p := range paths {
		for dir := path.Dir(p); !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			_, _ = os.Stat(filepath.Join(root, filepath.FromSlash(dir)))
		}
	}
}

// inside reports whether one of the directories above a file has one of the names.
func inside(p string, names []string) bool {
	for dir := range strings.SplitSeq(path.Dir(p), "/") {
		if slices.Contains(names, dir) {
			return true
		}
	}
	return false
}

// needsRepository skips a test if git is not installed, or if the files come from a source archive.
func needsRepository(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("NOTHING WAS CHECKED: git is not installed")
	}
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skipf("NOTHING WAS CHECKED: this is not a git repository: %v", err)
	}
}

// git runs git in a directory and returns its output. It drops the variables with which a git hook points at a repository.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// A change is a row of a table that differs from the repository. A row that is missing has the number 0.
type change struct {
	name    string
	was, is int
}

// changes compares the rows of a table with the repository, sorted by name.
func changes(was, is map[string]int) (found []change) {
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if was[name] != is[name] {
			found = append(found, change{name, was[name], is[name]})
		}
	}
	return found
}

// read returns the lines of a table that are not empty. A table that does not exist has none.
func read(t *testing.T, table string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(table)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// put adds a row to the rows of a table.
func put(t *testing.T, table string, rows map[string]int, name, number string) {
	t.Helper()
	n, err := strconv.Atoi(number)
	if err != nil || name == "" {
		t.Fatalf("%s has the row \"%s %s\", want a number and a name", table, number, name)
	}
	if _, ok := rows[name]; ok {
		t.Fatalf("%s has two rows of %s", table, name)
	}
	rows[name] = n
}

// write replaces a table.
func write(t *testing.T, table, text string) {
	t.Helper()
	if err := os.WriteFile(table, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
