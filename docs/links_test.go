package docs_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var (
	// fence matches a code block, whose text is neither a heading nor a link.
	fence = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	// heading matches a heading of any level.
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	// link matches the target of a link or of an image.
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// named matches a page as comments, messages and CHANGELOG name it: docs/server.md.
	named = regexp.MustCompile(`\bdocs/[a-z/-]+\.md\b`)
)

// prose returns a page without its code blocks.
func prose(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fence.ReplaceAllString(string(text), "")
}

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(page string) []string {
	var all []string
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1]))
	}
	return all
}

func TestAnchors(t *testing.T) {
	got := anchors("# A page\n\n## `lint` and CI's 3 rules\n\ntext\n### stdio, in-memory\n")
	if want := []string{"a-page", "lint-and-cis-3-rules", "stdio-in-memory"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// pages returns all pages: the repository's, those of docs and of its directories, and what coding agents are told.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"../*.md", "*.md", "*/*.md", "../skills/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		all = append(all, found...)
	}
	return slices.DeleteFunc(all, func(page string) bool { return strings.HasPrefix(page, "testdata") })
}

// Every link of a page leads to a file of the repository, and to a heading of it if it names one.
func TestLinks(t *testing.T) {
	checked := 0
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(prose(t, page), -1) {
			if strings.Contains(m[1], ":") { // another host, or a mail address
				continue
			}
			checked++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), filepath.FromSlash(file))
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			} else if anchor != "" && !slices.Contains(anchors(prose(t, target)), anchor) {
				t.Errorf("%s links to %s, which has no such heading", page, m[1])
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d links were found", checked)
	}
}

// A page that a comment, a message or the changelog names exists.
func TestNamedPages(t *testing.T) {
	checked := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if name == "bin" || name == "node_modules" || strings.HasPrefix(name, ".") && name != ".." && name != ".github" {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".go", ".md", ".yaml", ".yml", ".tmpl", ".txtar"}, filepath.Ext(name)) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range bytes.Lines(text) {
			if !bytes.Contains(line, []byte("docs/")) {
				continue
			}
			for _, page := range named.FindAllString(string(line), -1) {
				checked++
				if _, err := os.Stat(filepath.Join("..", page)); err != nil {
					t.Errorf("%s names %s, which does not exist", path, page)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 30 {
		t.Errorf("only %d names of pages were found", checked)
	}
}

// references are pages to look things up in, which may be long; packages.md is the maintainers' list.
var references = []string{"event-file.md", "requirements.md", "conform-checks.md", "packages.md", "benchmarks.md", "observability.md", "reference/command.md", "reference/diagnostics.md", "../CHANGELOG.md"}

// A page for readers has at most 2,000 words.
func TestPagesAreShort(t *testing.T) {
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(strings.Fields(string(text))); n > 2000 && !slices.Contains(references, filepath.ToSlash(page)) {
			t.Errorf("%s has %d words: split it", page, n)
		}
	}
}

// docs/README.md, of which the site makes its sidebar, has every page once; that of proposals has every proposal.
func TestEveryPageIsListed(t *testing.T) {
	listed := map[string]int{}
	for _, index := range []string{"README.md", "proposals/README.md"} {
		text, err := os.ReadFile(index)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^- \[[^\]]+\]\(([^):#]+\.md)\): \S`).FindAllStringSubmatch(string(text), -1) {
			listed[filepath.ToSlash(filepath.Join(filepath.Dir(index), m[1]))]++
		}
	}
	for _, page := range pages(t) {
		if page = filepath.ToSlash(page); !strings.HasPrefix(page, "../") && page != "README.md" && listed[page] != 1 {
			t.Errorf("docs/README.md, or that of proposals, lists docs/%s %d times as \"- [Title](page.md): what it has\"", page, listed[page])
		}
	}
}
