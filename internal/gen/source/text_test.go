package source

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// Positions and offsets agree with counting from the beginning of the line, also when they are
// asked for from the end and however long lines are.
func TestTextPositions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "é", "漢", "😀", "\n", "\r\n", "\r", strings.Repeat("x", 127), strings.Repeat("é", 100)}), 0, 40).Draw(t, "parts")
		src := strings.Join(parts, "")
		text := newText("f", src)
		line, start := 1, 0
		var want []Position
		var offsets []int
		for i := 0; i <= len(src); {
			offsets = append(offsets, i)
			want = append(want, Position{File: "f", Line: line, Column: utf8.RuneCountInString(src[start:i]) + 1})
			if i == len(src) {
				break
			}
			r, n := utf8.DecodeRuneInString(src[i:])
			i += n
			if r == '\n' || r == '\r' && (i == len(src) || src[i] != '\n') {
				line, start = line+1, i
			}
		}
		for i := len(offsets) - 1; i >= 0; i-- {
			if got := text.positionAt(offsets[i]); got != want[i] {
				t.Fatalf("offset %d is %v, want %v", offsets[i], got, want[i])
			}
			if got := text.yamlOffset(want[i].Line, want[i].Column); got != offsets[i] {
				t.Fatalf("%v is at offset %d, want %d", want[i], got, offsets[i])
			}
		}
	})
}

// One line of megabytes is read in time that grows with its size: each place is counted from the
// nearest mark, not from the beginning of the line.
func TestLongLine(t *testing.T) {
	const n = 60_000
	var b strings.Builder
	b.WriteString("{")
	for i := range n {
		fmt.Fprintf(&b, `"é%05d":"value",`, i)
	}
	b.WriteString(`"last":0}`)
	root, found := Parse("f.json", []byte(b.String()))
	if len(found) > 0 {
		t.Fatal(found)
	}
	if got, want := root.Get("last").Range.Start.Column, 1+n*17+8; got != want {
		t.Errorf("the last value is in column %d, want %d", got, want)
	}
	var out strings.Builder
	d := New("MCPE121", root.Get("last").Range, "wrong")
	if err := Write(&out, []Diagnostic{d}, WriteOptions{Excerpt: true, ReadFile: func(string) ([]byte, error) { return []byte(b.String()), nil }}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if utf8.RuneCountInString(lines[1]) > maxExcerpt+10 || !strings.HasSuffix(lines[1], `"value","last":0}`) || !strings.HasSuffix(lines[2], "^") ||
		utf8.RuneCountInString(lines[2]) != utf8.RuneCountInString(lines[1])-1 {
		t.Errorf("the excerpt is\n%s", out.String())
	}
}

// Large objects find their members by an index, also after a caller has changed them.
func TestMembersOfLargeObjects(t *testing.T) {
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, "k%d: %d\n", i, i)
	}
	root, _ := Parse("f.yaml", []byte(b.String()))
	check := func(what string) {
		t.Helper()
		for _, m := range root.Members {
			if got := root.Get(m.Key); got != m.Value {
				t.Errorf("%s: %s is %v", what, m.Key, got)
			}
		}
		if root.Get("none") != nil {
			t.Errorf("%s: a member that is not there was found", what)
		}
	}
	check("as read")
	root.Add("more", Range{}, &Node{Kind: Null})
	check("with one more")
	root.Members = slices.DeleteFunc(root.Members, func(m Member) bool { return m.Key == "k3" })
	check("with one less")
	root.Members = append(root.Members[:len(root.Members):len(root.Members)], Member{Key: "new", Value: &Node{}})
	check("with a new array")
	root.Members[5].Key = "renamed"
	if root.Get("renamed") == nil {
		t.Error("a renamed member is not found")
	}
}
