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

const (
	englishTable = "testdata/english.txt"
	perThousand  = 4   // hits that 1,000 words of a package may have without a row
	fewWords     = 250 // a package with fewer words may have one hit
)

// A habit is a way to write that makes English hard to read.
type habit struct {
	name    string
	clues   []string // every hit contains one of them; looking for them first takes a tenth of the time
	pattern *regexp.Regexp
	except  *regexp.Regexp // matches the start of hits that do not count; may be nil
}

var habits = []habit{
	{name: "is no X (is not a X)", clues: []string{" no "},
		pattern: regexp.MustCompile(`\b(?:is|are|was|were) no \w+`),
		except:  regexp.MustCompile(`^\w+ no (?:longer|more|less|different|one\b|such thing|doubt)`)},
	{name: "is none (is not)", clues: []string{" none"},
		pattern: regexp.MustCompile(`\b(?:is|are|was|were) none\b`)},
	{name: "what is … as a noun", clues: []string{"hat "},
		pattern: regexp.MustCompile(`(?:^|[;:,.(] ?|\b(?:of|for|with|by|to|from|and|in|than|as|like) )` +
			`[Ww]hat (?:is|are|was|were|has|have|it|they|a|an|the|no|comes|goes|came|lives)\b`)},
	{name: "who/whoever as a subject", clues: []string{"who", "Who"},
		pattern: regexp.MustCompile(`(?:^|[.;:] )(?:[Ww]hoever|Who) \w+s\b|\b(?:by|to|for|with|of) (?:who|whoever) \w+`)},
	{name: "those that, one that", clues: []string{" that", " which"},
		pattern: regexp.MustCompile(`\b(?:[Tt]hose|[Oo]ne|[Tt]hat) (?:that|which|of which)\b`)},
	{name: "tells that, is told of", clues: []string{"tell", " told"},
		pattern: regexp.MustCompile(`\btells? (?:that|whether|of)\b|\b(?:is|are|was|were|be) told\b`)},
	{name: "of which, of whom", clues: []string{"of which", "of whom"},
		pattern: regexp.MustCompile(`\bof (?:which|whom)\b`)},
	{name: "anew, again and again", clues: []string{"anew", "over and over"},
		pattern: regexp.MustCompile(`\banew\b|\bover and over\b`)},
	{name: "beside/behind (next to/after)", clues: []string{"beside", "behind "},
		pattern: regexp.MustCompile(`(?:^|[^-])\bbeside\b|\bbehind (?:it|them|each|the last|every)\b`)},
	{name: "of its own, of their own", clues: []string{" own"},
		pattern: regexp.MustCompile(`\bof (?:its|their|one's|his) own\b`)},
	{name: "a yet/again at the end", clues: []string{"yet", "again", "too", "alone", "apart", "at once"},
		pattern: regexp.MustCompile(`\b(?:yet|again|too|alone|apart|at once)[.;]`)},
	{name: "where for if", clues: []string{"Where "},
		pattern: regexp.MustCompile(`(?:^|[.;:] )Where (?:it|there|that|they|a|an|the|no|one)\b`)},
	{name: "has X done", clues: []string{"has "},
		pattern: regexp.MustCompile(`\bhas (?:what|whoever|whatever|those|everything|all) \w+ .{0,40}\b\w+ed\b`)},
	{name: "is asked by/for, asks whether", clues: []string{"ask"},
		pattern: regexp.MustCompile(`\b(?:is|are|was|be) asked\b|\basks? (?:whether|what|for what)\b`)},
}

// find returns where a habit is in a text.
func (h habit) find(text string) [][]int {
	if !slices.ContainsFunc(h.clues, func(clue string) bool { return strings.Contains(text, clue) }) {
		return nil
	}
	found := h.pattern.FindAllStringIndex(text, -1)
	if h.except == nil {
		return found
	}
	return slices.DeleteFunc(found, func(m []int) bool { return h.except.MatchString(text[m[0]:]) })
}

// A tally counts the words of an area or a package, and keeps the habits in them.
type tally struct {
	words  int
	places []string // each is a file and line, the words and the habit
}

// dense reports whether a tally has more hits than a package may have without a row.
func (c *tally) dense() bool {
	hits := len(c.places)
	return hits*1000 > perThousand*c.words && (c.words >= fewWords || hits > 1)
}

// A survey counts the habits of the repository by area, and those in comments and messages also by package.
type survey struct{ areas, packages map[string]*tally }

var areas = []string{"docs", "comments", "messages", "templates"}

// TestEnglish compares the habits in the texts of the repository with the table. An area has exactly the hits of its
// row. A package has at most 4 hits in 1,000 words, or it has a row and exactly the hits of that.
func TestEnglish(t *testing.T) {
	is := readEnglish(t)
	if *places != "" {
		is.print(t, *places)
	}
	rose, fell := is.compare(readRows(t))
	switch {
	case *update && len(rose) > 0 && !*raise:
		t.Errorf("%s is as it was: -update raises rows only with -raise\n%s", englishTable, strings.Join(rose, "\n"))
	case *update:
		write(t, englishTable, is.render())
	default:
		for _, row := range rose {
			t.Error(row)
		}
		if len(fell) > 0 {
			t.Errorf("fewer hits than in %s, run: go test ./internal/repocheck -update\n\t%s", englishTable, strings.Join(fell, "\n\t"))
		}
	}
}

// compare returns a message for each row of the table that rose or is new, and for each that fell or goes.
func (s survey) compare(areasWere, packagesWere map[string]int) (rose, fell []string) {
	const list = "go test ./internal/repocheck -run TestEnglish -v -places="
	areasAre, packagesAre := s.rows()
	for _, c := range changes(areasWere, areasAre) {
		if row := fmt.Sprintf("area %s: was %d, is %d", c.name, c.was, c.is); c.is < c.was {
			fell = append(fell, row)
		} else {
			rose = append(rose, row+": rewrite the new hits; to list all:\n\t"+list+c.name)
		}
	}
	for _, c := range changes(packagesWere, packagesAre) {
		row := fmt.Sprintf("package %s: was %d, is %d", c.name, c.was, c.is)
		switch found := s.packages[c.name]; {
		case c.is == 0:
			fell = append(fell, fmt.Sprintf("package %s: was %d, does not need a row any more", c.name, c.was))
		case c.is < c.was:
			fell = append(fell, row)
		case c.was > 0:
			rose = append(rose, row+": rewrite the new hits; to list all:\n\t"+list+c.name)
		default:
			rose = append(rose, fmt.Sprintf("package %s: %d hits in %d words of comments and messages, want at most %d in 1,000: rewrite\n\t%s",
				c.name, c.is, found.words, perThousand, strings.Join(found.places, "\n\t")))
		}
	}
	return rose, fell
}

// print logs the places of an area and of a package with a name.
func (s survey) print(t *testing.T, name string) {
	t.Helper()
	if s.areas[name] == nil && s.packages[name] == nil {
		t.Fatalf("-places=%s is neither one of %v nor a package directory", name, areas)
	}
	for _, c := range []*tally{s.areas[name], s.packages[name]} {
		if c != nil {
			t.Logf("%s: %d hits in %d words\n\t%s", name, len(c.places), c.words, strings.Join(c.places, "\n\t"))
		}
	}
}

// rows returns the hits of the areas, and of the packages that need a row.
func (s survey) rows() (inAreas, inPackages map[string]int) {
	inAreas, inPackages = map[string]int{}, map[string]int{}
	for name, c := range s.areas {
		inAreas[name] = len(c.places)
	}
	for dir, c := range s.packages {
		if c.dense() {
			inPackages[dir] = len(c.places)
		}
	}
	return inAreas, inPackages
}

// render returns the text of the table: hits and words of each area, and then the packages that need a row. The words
// are for readers; the test does not compare them.
func (s survey) render() string {
	var b strings.Builder
	for _, name := range areas {
		fmt.Fprintf(&b, "%d %d %s\n", len(s.areas[name].places), s.areas[name].words, name)
	}
	b.WriteString("\n")
	_, packages := s.rows()
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		fmt.Fprintf(&b, "%d %s\n", packages[dir], dir)
	}
	return b.String()
}

// readRows reads the table. A row of an area has three fields, and a row of a package has two.
func readRows(t *testing.T) (inAreas, inPackages map[string]int) {
	t.Helper()
	inAreas, inPackages = map[string]int{}, map[string]int{}
	for _, line := range read(t, englishTable) {
		switch fields := strings.Fields(line); len(fields) {
		case 3:
			put(t, englishTable, inAreas, fields[2], fields[0])
		case 2:
			put(t, englishTable, inPackages, fields[1], fields[0])
		default:
			t.Fatalf("%s has the row %q, want two or three fields", englishTable, line)
		}
	}
	return inAreas, inPackages
}

// readEnglish reads comments and strings of Go files, Markdown outside code blocks, and templates. It leaves out tests
// and generated files.
func readEnglish(t *testing.T) survey {
	t.Helper()
	s := survey{map[string]*tally{}, map[string]*tally{}}
	for _, name := range areas {
		s.areas[name] = new(tally)
	}
	for _, f := range files(t, []string{".git", "node_modules", "bin", "golden", "testdata"}, ".go", ".md", ".tmpl") {
		switch name := path.Base(f.path); path.Ext(name) {
		case ".go":
			if !strings.HasSuffix(name, "_test.go") && !f.isGenerated() {
				s.readGo(f)
			}
		case ".md":
			if !strings.Contains(name, "CHANGELOG") {
				s.readMarkdown(f)
			}
		case ".tmpl":
			n := 0
			for line := range strings.Lines(f.text) {
				n++
				count(f.path, n, line, s.areas["templates"])
			}
		}
	}
	return s
}

// quoted matches an interpreted string.
var quoted = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)

// readGo counts the comments of a Go file, and its strings that have a space. It knows only comments with two slashes.
func (s survey) readGo(f file) {
	dir := path.Dir(f.path)
	if s.packages[dir] == nil {
		s.packages[dir] = new(tally)
	}
	n := 0
	for line := range strings.SplitSeq(f.text, "\n") {
		n++
		if text, ok := comment(line); ok {
			count(f.path, n, text, s.areas["comments"], s.packages[dir])
		}
		code, _, _ := strings.Cut(line, "//")
		if !strings.Contains(code, `"`) {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(code, -1) {
			if strings.Contains(m[1], " ") {
				count(f.path, n, m[1], s.areas["messages"], s.packages[dir])
			}
		}
	}
}

// comment returns the text of the comment in a line. A directive for Go or a linter is not a comment, nor are two
// slashes after something other than space, as in a URL.
func comment(line string) (text string, ok bool) {
	for at := 0; ; at++ {
		i := strings.Index(line[at:], "//")
		if i < 0 {
			return "", false
		}
		at += i
		after := line[at+2:]
		if at > 0 && line[at-1] != ' ' && line[at-1] != '\t' || strings.HasPrefix(after, "go:") || strings.HasPrefix(after, "lint:") {
			continue
		}
		if after != "" && (after[0] == ' ' || after[0] == '\t') {
			after = after[1:]
		}
		return after, true
	}
}

// readMarkdown counts the text of a page outside code blocks.
func (s survey) readMarkdown(f file) {
	code, n := false, 0
	for line := range strings.Lines(f.text) {
		n++
		if strings.HasPrefix(line, "```") {
			code = !code
		} else if !code {
			count(f.path, n, line, s.areas["docs"])
		}
	}
}

// count adds the words and habits of a text to tallies.
func count(file string, line int, text string, to ...*tally) {
	words := len(strings.Fields(text))
	var found []string
	for _, h := range habits {
		for _, m := range h.find(text) {
			around := strings.ToValidUTF8(text[max(0, m[0]-60):min(len(text), m[1]+60)], "")
			found = append(found, fmt.Sprintf("%s:%d: %s [%s]", file, line, strings.TrimSpace(around), h.name))
		}
	}
	for _, c := range to {
		c.words += words
		c.places = append(c.places, found...)
	}
}

func TestHabits(t *testing.T) {
	examples := map[string][]string{
		"is no X (is not a X)":          {"it is no file, but it is no longer here", "they were no ones"},
		"is none (is not)":              {"there are none"},
		"what is … as a noun":           {"What is left", "part of what they do", "a list: what comes"},
		"who/whoever as a subject":      {"Whoever reads it", "known by who asked"},
		"those that, one that":          {"those that wait", "One of which"},
		"tells that, is told of":        {"it tells whether", "they are told"},
		"of which, of whom":             {"two of whom"},
		"anew, again and again":         {"it starts anew", "over and over"},
		"beside/behind (next to/after)": {"beside it", "behind the last"},
		"of its own, of their own":      {"a table of its own"},
		"a yet/again at the end":        {"it reads again.", "not yet; later", "all at once."},
		"where for if":                  {"Where there is a row", "It ends. Where a row is"},
		"has X done":                    {"it has what others wrote removed"},
		"is asked by/for, asks whether": {"it asks for what", "it was asked"},
	}
	for _, h := range habits {
		if len(examples[h.name]) == 0 {
			t.Errorf("%s has no example", h.name)
		}
		for _, text := range examples[h.name] {
			if n := len(h.find(text)); n != 1 {
				t.Errorf("%s is %d times in %q, want 1", h.name, n, text)
			}
		}
		const fine = "It is no longer, was no more, is no different, is no one, is no such thing, is no doubt; the man who told me owns this too with --beside"
		if n := len(h.find(fine)); n != 0 {
			t.Errorf("%s is %d times in %q, want 0", h.name, n, fine)
		}
	}
}

func TestReadGo(t *testing.T) {
	s := survey{map[string]*tally{"comments": {}, "messages": {}}, map[string]*tally{}}
	s.readGo(file{"a/b.go", strings.Join([]string{
		"//go:build anew",
		"// one two",
		"x() // three, see http://a //b",
		`y("four five", "six", "http://anew anew") //lint:ignore U1000 anew`,
		`z("it is \"seven\" anew") ///eight`,
	}, "\n")})
	for got, want := range map[*tally]int{s.areas["comments"]: 7, s.areas["messages"]: 6, s.packages["a"]: 13} {
		if got.words != want {
			t.Errorf("got %d words, want %d", got.words, want)
		}
	}
	if want := []string{`a/b.go:5: it is \"seven\" anew [anew, again and again]`}; !slices.Equal(s.packages["a"].places, want) {
		t.Errorf("got %q, want %q", s.packages["a"].places, want)
	}
}

func TestCompare(t *testing.T) {
	hits := func(n, words int) *tally { return &tally{words, slices.Repeat([]string{"place"}, n)} }
	s := survey{
		map[string]*tally{"docs": hits(3, 900), "comments": hits(2, 900), "messages": hits(1, 900)},
		map[string]*tally{
			"few": hits(1, 10), "fewer": hits(2, 10), "right": hits(4, 1000), "dense": hits(5, 1000),
			"same": hits(9, 1000), "up": hits(9, 1000), "down": hits(9, 1000), "out": hits(4, 1000),
		},
	}
	rose, fell := s.compare(map[string]int{"docs": 2, "comments": 2, "messages": 2},
		map[string]int{"same": 9, "up": 8, "down": 10, "out": 5, "gone": 5})
	for _, c := range []struct{ got, want []string }{
		{rose, []string{"area docs: was 2, is 3:", "package dense: 5 hits in 1000 words", "package fewer: 2 hits in 10 words", "package up: was 8, is 9:"}},
		{fell, []string{"area messages: was 2, is 1", "package down: was 10, is 9", "package gone: was 5, does not", "package out: was 5, does not"}},
	} {
		if !slices.EqualFunc(c.got, c.want, strings.HasPrefix) {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
