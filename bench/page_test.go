package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
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
		{what: "polls | by <the> route", limit: []float64{90, 100, 110}, ours: []float64{54, 50, 44}, show: rate, target: "≥ 0.40"},
		{what: "p99 latency", ours: []float64{0.003}, most: 0.001, show: duration, note: "p50 2ms"},
		{what: "memory", ours: []float64{500 << 20, 400 << 20}, show: size},
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
	want := "# B\n" + pageBegin + "about\n\n![Each ratio against its target](images/benchmarks.svg)\n\n" +
		"| Measurement | Limit | Ours | Ratio | Least … most | Target |\n|---|---|---|---|---|---|\n" +
		"| polls \\| by <the> route | 100/s | 50.0/s | 0.50 | 0.40 … 0.60 | ≥ 0.40 |\n" +
		"| p99 latency |  | 3ms (p50 2ms) | 3.00 |  | ≤ 1ms |\n" +
		"| memory |  | 500 MB |  | 400 MB … 500 MB |  |\n" + pageEnd + "the rest\n"
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
		{row{limit: []float64{2}, ours: []float64{1}, target: "≥ 0.40"}, 1.25, true},
		{row{ours: []float64{4}, most: 2}, 0.5, true},
		{row{ours: []float64{0}, most: 2}, 0, false},
		{row{limit: []float64{0}, ours: []float64{4}, target: "≤ 1.00"}, 0, false},
		{row{ours: []float64{4}, target: "≤ 1.00"}, 0, false},
		{row{limit: []float64{1}, ours: []float64{1}}, 0, false},
	} {
		if got, ok := targetRatio(c.r); got != c.want || ok != c.ok {
			t.Errorf("%+v: %v, %v", c.r, got, ok)
		}
	}
}

func TestUnits(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{rate(4.46), "4.5/s"}, {rate(33126.6), "33127/s"}, {count(16), "16"},
		{duration(0.0123456), "12.3ms"}, {duration(1.23456), "1.23s"}, {duration(0), "0s"}, {nanoseconds(12.34e-9), "12.3 ns"},
		{size(2.4536 * 1024), "2.45 KB"}, {size(999 << 10), "999 KB"}, {size(1019 << 10), "0.995 MB"}, {size(311 << 20), "311 MB"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// Measurements are made in turns, and those of a failed part are kept up to the failure.
func TestMeasure(t *testing.T) {
	var order string
	failure := errors.New("the machine is gone")
	rows, err := measure(t.Context(), settings{rounds: 3}, func(b *bench) {
		b.ends = append(b.ends, func() { order += "." }, func() { order += "!" })
		turn := func(name string) func() float64 {
			return func() float64 { order += name; return float64(len(order)) }
		}
		m := b.inTurns(turn("a"), turn("b"))
		b.against("turns", m[0], m[1], count, "≥ 1.00")
		b.check(failure)
		order += "not reached"
	})
	if !errors.Is(err, failure) || order != "ababab!." {
		t.Errorf("%v after %q", err, order)
	}
	if len(rows) != 1 || !slices.Equal(rows[0].limit, []float64{1, 3, 5}) || !slices.Equal(rows[0].ours, []float64{2, 4, 6}) {
		t.Errorf("%+v", rows)
	}
}
