package repocheck

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const sizeTable = "testdata/size.txt"

// support matches the directories of packages that only tests import.
var support = regexp.MustCompile(`(test|tests)(/|$)|/(testkit|faults|memcluster|campaign|peers|hostileserver|wrongserver|freeport|` +
	`slowpeer|memnet|reaper|throwaway|oracle|drivers|browser|pgserver|relayed)(/|$)`)

// sums are the rows after those of the packages.
var sums = []string{"runtime in all", "everything else", "total"}

// TestSize compares the lines of code in each package with the table. Comments and blank lines do not count.
func TestSize(t *testing.T) {
	is := sizes(t)
	if *update {
		write(t, sizeTable, renderSizes(is))
		return
	}
	was := map[string]int{}
	for _, line := range read(t, sizeTable) {
		number, name, _ := strings.Cut(line, " ")
		put(t, sizeTable, was, name, number)
	}
	var report strings.Builder
	for _, c := range changes(was, is) {
		fmt.Fprintf(&report, "\t%s: was %d, is %d\n", c.name, c.was, c.is)
	}
	if report.Len() > 0 {
		t.Errorf("lines of code differ from %s:\n%srun: go test ./internal/repocheck -update\n"+
			"and give the reason for a rise in the commit body, with the directory of each package that rose", sizeTable, report.String())
	}
}

// sizes counts the lines of code in each package of the repository that is neither generated nor for tests only, and
// adds the sums.
func sizes(t *testing.T) map[string]int {
	t.Helper()
	found := map[string]int{}
	for _, name := range sums {
		found[name] = 0
	}
	for _, f := range shipped(t) {
		n := codeLines(f.text)
		found[path.Dir(f.path)] += n
		found["total"] += n
		if strings.HasPrefix(f.path, "runtime/") {
			found["runtime in all"] += n
		} else {
			found["everything else"] += n
		}
	}
	return found
}

// shipped returns the Go files that are neither generated nor for tests only.
func shipped(t *testing.T) []file {
	t.Helper()
	return slices.DeleteFunc(files(t, []string{"testdata", "node_modules", ".git", "bin"}, ".go"), func(f file) bool {
		return strings.HasPrefix(f.path, "golden/") || strings.HasSuffix(f.path, "_test.go") || support.MatchString(path.Dir(f.path)) || f.generated()
	})
}

// codeLines counts the lines that are neither blank nor a comment that starts with two slashes.
func codeLines(text string) (n int) {
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n
}

// renderSizes returns the text of the table: the packages by directory, and then the sums.
func renderSizes(found map[string]int) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if !slices.Contains(sums, name) && found[name] > 0 {
			fmt.Fprintf(&b, "%d %s\n", found[name], name)
		}
	}
	for _, name := range sums {
		fmt.Fprintf(&b, "%d %s\n", found[name], name)
	}
	return b.String()
}
