package source_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

const rendered = "version: 1\nnäme: { a: 1,\ta: 2 }\n"

func TestWrite(t *testing.T) {
	_, found := source.Parse("dir/f.yaml", []byte(rendered))
	read := func(string) ([]byte, error) { return []byte(rendered), nil }
	for _, c := range []struct {
		name string
		o    source.WriteOptions
		want string
	}{
		{"text", source.WriteOptions{}, "dir/f.yaml:2:15: error MCPE103: key \"a\" is given twice\n  dir/f.yaml:2:9: first given here\n"},
		{"excerpt", source.WriteOptions{Excerpt: true, ReadFile: read}, `dir/f.yaml:2:15: error MCPE103: key "a" is given twice
  2 | näme: { a: 1, a: 2 }
    |               ^
  dir/f.yaml:2:9: first given here
`},
		{"color", source.WriteOptions{Color: true}, "\x1b[1mdir/f.yaml:2:15\x1b[0m: \x1b[1;31merror MCPE103\x1b[0m: key \"a\" is given twice\n  dir/f.yaml:2:9: first given here\n"},
		{"json", source.WriteOptions{Format: source.JSON}, `{"code":"MCPE103","severity":"error","range":{"start":{"file":"dir/f.yaml","line":2,"column":15},"end":{"file":"dir/f.yaml","line":2,"column":16}},"message":"key \"a\" is given twice","related":[{"range":{"start":{"file":"dir/f.yaml","line":2,"column":9},"end":{"file":"dir/f.yaml","line":2,"column":10}},"message":"first given here"}]}
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got bytes.Buffer
			if err := source.Write(&got, found, c.o); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestWriteHintAndControls(t *testing.T) {
	d := source.New("MCPE123", source.InFile("f.yaml"), "bad \x1b[31m\nvalue").WithHint("good")
	var got bytes.Buffer
	if err := source.Write(&got, []source.Diagnostic{d}, source.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if want := "f.yaml: error MCPE123: bad \\x1b[31m\\nvalue (good)\n"; got.String() != want {
		t.Errorf("got %q, want %q", got.String(), want)
	}
}

func TestSort(t *testing.T) {
	at := func(file string, line, col int) source.Range {
		p := source.Position{File: file, Line: line, Column: col}
		return source.Range{Start: p, End: p}
	}
	ds := []source.Diagnostic{
		source.New("MCPE123", at("b", 1, 1), "x"), source.New("MCPE123", at("a", 10, 1), "x"), source.New("MCPE131", at("a", 2, 10), "x"),
		source.New("MCPE123", at("a", 2, 9), "x"), source.New("MCPE123", at("b", 1, 1), "x"),
	}
	var got []string
	for _, d := range source.Sort(ds) {
		got = append(got, d.String())
	}
	want := []string{"a:2:9: error MCPE123: x", "a:2:10: warning MCPE131: x", "a:10:1: error MCPE123: x", "b:1:1: error MCPE123: x"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestSuggest(t *testing.T) {
	words := []string{"description", "delivery", "op", "path", "$ref", "required"}
	for in, want := range map[string]string{
		"descripton": "description", "requried": "required", "ref": "$ref", "PATH": "path", "opp": "", "deliver": "delivery", "x": "", "unrelated": "",
	} {
		if got := source.Suggest(in, words); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}
