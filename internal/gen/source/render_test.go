package source_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
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
		{"github", source.WriteOptions{Format: source.GitHub}, "::error file=dir/f.yaml,line=2,col=15,endColumn=15,title=MCPE103::key \"a\" is given twice%0Adir/f.yaml:2:9: first given here\n"},
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
	d := source.New("MCPE123", source.InFile("\x1b[31mf\u202e.yaml"), "bad \x1b[31m\nvalue\u2066").WithHint("good")
	var got bytes.Buffer
	if err := source.Write(&got, []source.Diagnostic{d}, source.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if want := "\\x1b[31mf\\u202e.yaml: error MCPE123: bad \\x1b[31m\\nvalue\\u2066 (good)\n"; got.String() != want {
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

func TestWriteGitHubEscapes(t *testing.T) {
	at := source.Position{File: "a,b:c%.yaml", Line: 2, Column: 3}
	d := source.New("MCPE131", source.Range{Start: at, End: source.Position{File: at.File, Line: 4, Column: 1}}, "50%% of\nit").WithHint("no")
	var got bytes.Buffer
	if err := source.Write(&got, []source.Diagnostic{d, source.New("MCPE204", source.InFile("x"), "m")}, source.WriteOptions{Format: source.GitHub}); err != nil {
		t.Fatal(err)
	}
	want := "::warning file=a%2Cb%3Ac%25.yaml,line=2,endLine=4,col=3,title=MCPE131::50%25 of%0Ait (no)\n::notice file=x,title=MCPE204::m\n"
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The log follows SARIF 2.1.0: each result names its rule by ID and index, places are URIs and
// regions, and an empty log is one run without results.
func TestWriteSARIF(t *testing.T) {
	_, found := source.Parse("dir/f ü.yaml", []byte(rendered))
	var got bytes.Buffer
	if err := source.Write(&got, append(found, source.New("EVENT_X", source.InFile("HEAD:a.yaml"), "m").WithHint("h")), source.WriteOptions{Format: source.SARIF}); err != nil {
		t.Fatal(err)
	}
	var log struct {
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct{ Rules []struct{ ID string } }
			}
			Results []struct {
				RuleID    string
				RuleIndex int
				Level     string
				Message   struct{ Text string }
				Locations []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           *struct{ StartLine, StartColumn, EndLine, EndColumn int }
					}
				}
				RelatedLocations []struct{ ID int }
			}
		}
	}
	if err := json.Unmarshal(got.Bytes(), &log); err != nil {
		t.Fatal(err)
	}
	r := log.Runs[0].Results
	if log.Version != "2.1.0" || len(r) != 2 || len(log.Runs[0].Tool.Driver.Rules) != 2 {
		t.Fatalf("%s", &got)
	}
	place := r[0].Locations[0].PhysicalLocation
	if place.ArtifactLocation.URI != "dir/f%20%C3%BC.yaml" || place.Region.StartLine != 2 || place.Region.StartColumn != 15 || place.Region.EndColumn != 16 || len(r[0].RelatedLocations) != 1 {
		t.Errorf("%+v", r[0])
	}
	if last := r[1]; last.RuleID != "EVENT_X" || last.RuleIndex != 1 || last.Level != "error" || last.Message.Text != "m (h)" ||
		last.Locations[0].PhysicalLocation.ArtifactLocation.URI != "./HEAD:a.yaml" || last.Locations[0].PhysicalLocation.Region != nil {
		t.Errorf("%+v", last)
	}
	got.Reset()
	if err := source.Write(&got, nil, source.WriteOptions{Format: source.SARIF}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(got.Bytes(), []byte(`"results": []`)) {
		t.Errorf("%s", &got)
	}
}
