// Package docs_test holds the documentation to the repository.
package docs_test

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// requirementID matches the IDs of docs/requirements.md wherever they are written; diagnostics such
// as MCPE101 have no hyphen.
var requirementID = regexp.MustCompile(`\b(?:` +
	`(?:CAP|LIST|EVOL|ERR|OCC|CUR|POLL|PUSH|SUB|VER|SSRF|HOOK|AUTH|SRV|CLI|CON|COAL|HOST|BRIDGE|CONV|TEST|TASK|REP|MODEL|TS|PLUG|JS|OB)-[0-9]+[a-z]?` +
	`|MCP[EC]-[A-Z]+-[0-9]+|D[0-9]{1,2}|trap [0-9]+)\b`)

// traps matches the traps that a comment or a test's name tells of: "trap 6", "Traps 1, 5 and 6", "Trap6".
var traps = regexp.MustCompile(`[Tt]raps? ?[0-9]+(?:(?:, (?:trap )?| and )[0-9]+)*`)

var number = regexp.MustCompile(`[0-9]+`)

// TestRequirements compares the IDs that the repository uses with those that docs/requirements.md
// explains: each used one is explained once, each explained one is used.
func TestRequirements(t *testing.T) {
	page, err := os.ReadFile("requirements.md")
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		id := strings.TrimSpace(cells[1])
		if requirementID.FindString(id) != id || id == "" {
			continue
		}
		if explained[id] {
			t.Errorf("requirements.md explains %s twice", id)
		}
		explained[id] = true
		if sentence := strings.TrimSpace(cells[2]); !strings.HasSuffix(sentence, ".") {
			t.Errorf("requirements.md: %s has no sentence: %q", id, sentence)
		}
	}
	used := usedIDs(t, "..")
	for _, id := range slices.Sorted(maps.Keys(used)) {
		if !explained[id] {
			t.Errorf("%s is used in %s and not explained in docs/requirements.md", id, used[id])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(explained)) {
		if _, ok := used[id]; !ok {
			t.Errorf("docs/requirements.md explains %s, which nothing names", id)
		}
	}
}

// usedIDs returns the IDs that sources and documents below root name, each with one of the files.
func usedIDs(t *testing.T, root string) map[string]string {
	used := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if name == "testdata" || name == "bin" || name == "node_modules" || strings.HasPrefix(name, ".") && name != ".." {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".go", ".md", ".yaml", ".tmpl", ".txtar"}, filepath.Ext(name)) ||
			name == "requirements.md" || name == "requirements_test.go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range bytes.Lines(text) {
			if !mayName(line) {
				continue
			}
			for _, id := range requirementID.FindAll(line, -1) {
				used[string(id)] = path
			}
			for _, list := range traps.FindAll(line, -1) {
				for _, n := range number.FindAll(list, -1) {
					used["trap "+string(n)] = path
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return used
}

// mayName reports whether a line can hold an ID. Matching every line would take a minute with the race
// detector.
func mayName(line []byte) bool {
	for i, c := range line {
		if i == 0 || c < '0' || c > '9' {
			continue
		}
		switch before := line[i-1]; {
		case before == 'D', before == '-' && i > 1 && line[i-2] >= 'A' && line[i-2] <= 'Z':
			return true
		case before == ' ', before == 'p', before == 's':
			if bytes.Contains(line, []byte("rap")) {
				return true
			}
		}
	}
	return false
}
