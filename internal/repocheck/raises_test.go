package repocheck

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// TestRaisesHaveReasons reads the commits that changed the table of sizes. The body of a commit names each package
// that grew in it.
func TestRaisesHaveReasons(t *testing.T) {
	needsRepository(t)
	_, _ = os.Stat(filepath.Join(root, ".git", "logs", "HEAD")) // go test must not reuse a result after a commit
	for _, problem := range unexplained(t, root, "internal/repocheck/"+sizeTable) {
		t.Error(problem)
	}
}

// unexplained reads the history of a table of sizes, and returns a line for each commit that raises or adds rows
// which its body does not name. It leaves out merges, whose commits it reads. A commit that creates the table needs no
// reasons, and the oldest commit of a shallow clone looks as if it did.
func unexplained(t *testing.T, dir, table string) (problems []string) {
	t.Helper()
	log := git(t, dir, "log", "--format=%x00%h %s%x00%b%x00", "--no-show-signature",
		"--patch", "--no-merges", "--unified=0", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--", table)
	if log == "" {
		return nil
	}
	for commit := range slices.Chunk(strings.Split(log, "\x00")[1:], 3) {
		title, body, diff := commit[0], commit[1], commit[2]
		var unnamed []string
		for _, row := range risen(diff) {
			if !names(body, row) {
				unnamed = append(unnamed, row)
			}
		}
		if len(unnamed) > 0 {
			problems = append(problems, fmt.Sprintf("%s: the commit body does not name %s, which grew: amend it with the reason",
				title, strings.Join(unnamed, ", ")))
		}
	}
	return problems
}

var changedRow = regexp.MustCompile(`(?m)^([+-])(\d+) (\S+)$`)

// risen returns the packages whose rows are new or have a higher number after a diff of the table, unless the diff
// creates the table. Rows of sums are not packages.
func risen(diff string) (found []string) {
	if strings.Contains(diff, "\n--- /dev/null\n") {
		return nil
	}
	was, is := map[string]int{}, map[string]int{}
	for _, m := range changedRow.FindAllStringSubmatch(diff, -1) {
		side := was
		if m[1] == "+" {
			side = is
		}
		if !slices.Contains(sums, m[3]) {
			side[m[3]], _ = strconv.Atoi(m[2])
		}
	}
	for _, c := range changes(was, is) {
		if c.is > c.was {
			found = append(found, c.name)
		}
	}
	return found
}

// names reports whether a text has the path of a directory, or the path of a directory above it with at least two
// elements.
func names(text, dir string) bool {
	words := strings.FieldsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-", r)
	})
	return slices.ContainsFunc(words, func(word string) bool {
		word = strings.Trim(word, "./")
		return word == dir || strings.Contains(word, "/") && strings.HasPrefix(dir, word+"/")
	})
}

func TestUnexplained(t *testing.T) {
	commits := []struct {
		title, body, table string
		want               string // the packages that lack a reason
	}{
		{"the table is new", "", "10 bench\n5 runtime/a\n20 runtime/internal/b\n35 total\n", ""},
		{"rise without a body", "", "10 bench\n6 runtime/a\n20 runtime/internal/b\n36 total\n", "runtime/a"},
		{"rise in the title: runtime/a", "", "10 bench\n7 runtime/a\n20 runtime/internal/b\n37 total\n", "runtime/a"},
		{"rise with a reason", "`runtime/a`: it reads more.", "10 bench\n8 runtime/a\n20 runtime/internal/b\n38 total\n", ""},
		{"fall", "", "9 bench\n8 runtime/a\n20 runtime/internal/b\n37 total\n", ""},
		{"two rise, one has a reason", "Why: bench.", "10 bench\n8 runtime/a\n22 runtime/internal/b\n40 total\n", "runtime/internal/b"},
		{"the parent is named", "(runtime/internal/... grew)", "10 bench\n8 runtime/a\n23 runtime/internal/b\n41 total\n", ""},
		{"the parent has one element", "runtime grew.", "10 bench\n8 runtime/a\n24 runtime/internal/b\n42 total\n", "runtime/internal/b"},
		{"another package is named", "runtime/internal/bc grew, and runtime/inter.", "10 bench\n8 runtime/a\n25 runtime/internal/b\n43 total\n", "runtime/internal/b"},
		{"new row", "", "10 bench\n8 runtime/a\n25 runtime/internal/b\n1 runtime/internal/b/c\n44 total\n", "runtime/internal/b/c"},
		{"new row with a reason", "New package gen/x.", "10 bench\n2 gen/x\n8 runtime/a\n25 runtime/internal/b\n1 runtime/internal/b/c\n46 total\n", ""},
		{"row goes, rows change places", "", "10 bench\n8 runtime/a\n1 runtime/internal/b/c\n25 runtime/internal/b\n44 total\n", ""},
	}
	dir := throwaway(t)
	var want []string
	for _, c := range commits {
		commit(t, dir, c.title, c.body, c.table)
		if c.want != "" {
			want = append(want, c.title+": the commit body does not name "+c.want+", which grew: amend it with the reason")
		}
	}
	got := unexplained(t, dir, "size.txt")
	for i, problem := range got {
		_, got[i], _ = strings.Cut(problem, " ") // the hash
	}
	slices.Reverse(got)
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	shallow := t.TempDir()
	git(t, dir, "clone", "-q", "--depth=3", "file://"+filepath.ToSlash(dir), shallow)
	if got := unexplained(t, shallow, "size.txt"); len(got) != 0 {
		t.Errorf("got %q in a clone whose oldest commit adds a row without a reason", got)
	}
}

// throwaway makes a repository for a test.
func throwaway(t *testing.T) (dir string) {
	t.Helper()
	needsGit(t)
	dir = t.TempDir()
	git(t, dir, "init", "-q", "-b", "main")
	for _, c := range [][2]string{
		{"user.name", "A"}, {"user.email", "a@example.com"}, {"commit.gpgSign", "false"}, {"core.hooksPath", dir},
	} {
		git(t, dir, "config", c[0], c[1])
	}
	return dir
}

// commit commits a table in a throwaway repository.
func commit(t *testing.T, dir, title, body, table string) {
	t.Helper()
	write(t, filepath.Join(dir, "size.txt"), table)
	git(t, dir, "add", "size.txt")
	git(t, dir, "commit", "-q", "-m", title, "-m", body)
}
