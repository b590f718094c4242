package main

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWritePage(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "benchmarks.md")
	if err := os.Mkdir(filepath.Join(dir, "images"), 0o777); err != nil {
		t.Fatal(err)
	}
	rows := []row{
		{"polls | by <the> route", "100/s", "50/s", 0.5, "≥ 0.40"},
		{"p99 latency", "1 ms", "3 ms", 3, "≤ 1.10"},
		{"memory", "", "500 MB", 0, ""},
		{"heap", "", "12 KB", 12, "ours ≤ 16 KB"},
	}
	for _, broken := range []string{"# B\n", "# B\n" + pageBegin} {
		if err := os.WriteFile(page, []byte(broken), 0o666); err != nil {
			t.Fatal(err)
		}
		err := writePage(page, "about", rows)
		if text, _ := os.ReadFile(page); err == nil || string(text) != broken {
			t.Errorf("%q: %v, and the page is %q", broken, err, text)
		}
		if _, err := os.Stat(filepath.Join(dir, chartFile)); err == nil {
			t.Error("a chart was written")
		}
	}
	if err := os.WriteFile(page, []byte("# B\n"+pageBegin+"old\n"+pageEnd+"the rest\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time what the first has written is replaced
		if err := writePage(page, "about", rows); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := "# B\n" + pageBegin + "about\n\n![Each ratio against its target](images/benchmarks.svg)\n\n| Measurement | Limit | Ours | Ratio | Target |\n|---|---|---|---|---|\n" +
		"| polls \\| by <the> route | 100/s | 50/s | 0.50 | ≥ 0.40 |\n| p99 latency | 1 ms | 3 ms | 3.00 | ≤ 1.10 |\n| memory |  | 500 MB | 0.00 |  |\n" +
		"| heap |  | 12 KB | 12.00 | ours ≤ 16 KB |\n" + pageEnd + "the rest\n"
	if string(text) != want {
		t.Errorf("the page is\n%s\nwant\n%s", text, want)
	}
	svg, err := os.ReadFile(filepath.Join(dir, chartFile))
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
	if good, bad := strings.Count(string(svg), `class="good"`), strings.Count(string(svg), `class="bad"`); good != 1 || bad != 1 {
		t.Errorf("%d good and %d bad bars in\n%s", good, bad, svg)
	}
}

func TestReached(t *testing.T) {
	for _, c := range []struct {
		r    row
		want float64
		ok   bool
	}{
		{row{ratio: 0.5, target: "≥ 0.40"}, 1.25, true},
		{row{ratio: 2, target: "≤ 1.00"}, 0.5, true},
		{row{ratio: 2, target: "ours ≤ 16 KB"}, 0, false},
		{row{ratio: 0, target: "≤ 1.00"}, 0, false},
		{row{ratio: 1}, 0, false},
	} {
		if got, ok := targetRatio(c.r); got != c.want || ok != c.ok {
			t.Errorf("%+v: %v, %v", c.r, got, ok)
		}
	}
}
