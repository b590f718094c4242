package source_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// Every code that the generator uses is explained, and every explained code is used.
func TestCodesAreUsedAndExplained(t *testing.T) {
	used := make(map[string]string)
	code := regexp.MustCompile(`"(MCPE\d{3})"`)
	for _, top := range []string{"..", "../../../gen", "../../../cmd"} {
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if os.IsNotExist(err) {
				return nil
			}
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".schema.json") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			if filepath.Base(filepath.Dir(path)) == "source" && strings.HasPrefix(d.Name(), "codes") {
				return nil
			}
			content, err := os.ReadFile(path)
			for _, m := range code.FindAllStringSubmatch(string(content), -1) {
				used[m[1]] = path
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	seen := make(map[string]bool)
	for _, c := range source.Codes() {
		if seen[c.ID] {
			t.Errorf("%s is in the table twice", c.ID)
		}
		seen[c.ID] = true
		if used[c.ID] == "" {
			t.Errorf("%s is explained, but nothing reports it", c.ID)
		}
		if c.Title == "" || !strings.HasSuffix(c.Explanation, ".") || len(c.Explanation) < 60 || strings.Contains(c.Explanation, "\n") {
			t.Errorf("%s needs a title and one paragraph of explanation", c.ID)
		}
	}
	for id, path := range used {
		if !seen[id] {
			t.Errorf("%s is reported in %s, but not in the table of codes", id, path)
		}
	}
}
