package journal

import (
	"bytes"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// logged collects what is logged by slog.Default until the test ends.
func logged(t *testing.T) *bytes.Buffer {
	t.Helper()
	var text bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&text, nil)))
	t.Cleanup(func() {
		slog.SetDefault(before)
		log.SetOutput(os.Stderr)
	})
	return &text
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// typical returns the content of a file after changes, and the values that it has.
func typical(t *testing.T) (string, map[string]string) {
	return after(t, entry("a", "1"), entry(`incidents/"P1" ü`, `{"cursor":"AQE"}`), entry("b", "1"), entry("a", "2"), entry("b", ""), entry("c", "last"))
}

func after(t *testing.T, changes ...Entry) (string, map[string]string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "j")
	j := open(t, path)
	for _, e := range changes {
		if err := j.Put(e); err != nil {
			t.Fatal(err)
		}
	}
	all := content(j)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return read(t, path), all
}

// CLI-6: a flipped bit has no effect, or is an error that changes nothing, or its line is set aside and logged.
func TestFlippedBits(t *testing.T) {
	log := logged(t)
	whole, all := after(t, entry(`"P1" ü`, `{"cursor":"AQE"}`), entry("b", "1"), entry("b", ""))
	path := filepath.Join(t.TempDir(), "j")
	aside := path + damagedSuffix
	counts := map[string]int{}
	for i := range whole {
		for bit := range 8 {
			text := []byte(whole)
			text[i] ^= 1 << bit
			write(t, path, string(text))
			log.Reset()
			os.Remove(aside)
			j, err := Open(t.Context(), path, format)
			if err != nil {
				counts["refused"]++
				if read(t, path) != string(text) {
					t.Fatalf("byte %d, bit %d: the error %v, and the file was changed", i, bit, err)
				}
				continue
			}
			got := content(j)
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			if log.Len() == 0 {
				counts["without effect"]++
				if !maps.Equal(got, all) {
					t.Errorf("byte %d, bit %d: nothing is said, and it has %q\n%s", i, bit, got, text)
				}
				continue
			}
			counts["set aside"]++
			if lost := read(t, aside); !strings.Contains(string(text), strings.TrimSuffix(lost, "\n")) || !strings.Contains(log.String(), aside) {
				t.Errorf("byte %d, bit %d: %q was set aside, %s", i, bit, lost, log)
			}
		}
	}
	if counts["refused"] == 0 || counts["set aside"] < 8*len(whole)/2 {
		t.Errorf("%v of %d bits", counts, 8*len(whole))
	}
}

// CLI-6: damaged lines are set aside in a file that is never written to again, and said once, with the way to restore
// them. The others are there.
func TestDamagedLines(t *testing.T) {
	log := logged(t)
	whole, all := typical(t)
	delete(all, "c")
	path := filepath.Join(t.TempDir(), "j")
	lines := strings.SplitAfter(strings.Replace(whole, "last", "lost", 1), "\n")
	lines = slices.Insert(lines, 3, strings.Repeat("\x00", 40)+"\n")
	write(t, path, strings.Join(lines, ""))
	format := format
	format.Effect = "an event may be lost"
	j, err := Open(t.Context(), path, format)
	if err != nil {
		t.Fatal(err)
	}
	want(t, j, all)
	for _, said := range []string{path, `lines="4, 8"`, `error="invalid character`, path + ".damaged", `mayConcern="an unknown key, k \"c\""`, "an event may be lost"} {
		if !strings.Contains(log.String(), said) {
			t.Errorf("%s\nhas nothing of %s", log, said)
		}
	}
	if got := read(t, path+".damaged"); got != lines[3]+lines[7] {
		t.Errorf("set aside: %q", got)
	}
	put(t, j, "d", "1")
	all["d"] = "1"
	j.Close()

	log.Reset()
	j = open(t, path)
	want(t, j, all)
	j.Close()
	if log.Len() != 0 {
		t.Errorf("said again: %s", log)
	}

	repaired := strings.Replace(lines[7][:len(lines[7])-1-sumSize], "lost", "last", 1) + "}\n"
	write(t, path, read(t, path)+repaired)
	all["c"] = "last"
	j = open(t, path)
	want(t, j, all)
	j.Close()

	for n := 2; n <= maxDamaged; n++ {
		write(t, path, read(t, path)+fmt.Sprintf("damage %d\n", n))
		j = open(t, path)
		want(t, j, all)
		j.Close()
		if got := read(t, fmt.Sprintf("%s.damaged.%d", path, n)); got != fmt.Sprintf("damage %d\n", n) {
			t.Errorf("set aside: %q", got)
		}
	}
	damaged := read(t, path) + "more damage\n"
	write(t, path, damaged)
	_, err = Open(t.Context(), path, format)
	if err == nil || !strings.Contains(err.Error(), path+".damaged and 8 more have lines of earlier damage; look at them and remove them") || read(t, path) != damaged {
		t.Error(err)
	}
}

// Messages about much damage stay short.
func TestMuchDamage(t *testing.T) {
	log := logged(t)
	whole, all := typical(t)
	path := filepath.Join(t.TempDir(), "j")
	for i := range 1000 {
		whole += fmt.Sprintf(`{"kind":"k","key":"%d%s","value":1,"sum":"00000000"}`, i, strings.Repeat("x", 1000)) + "\n"
	}
	write(t, path, whole)
	j := open(t, path)
	want(t, j, all)
	if !strings.Contains(log.String(), "17 and 990 more") || log.Len() > 4000 {
		t.Errorf("%d bytes: %s", log.Len(), log)
	}
}

// A person may remove lines, write some without a checksum, and use any editor.
func TestEdited(t *testing.T) {
	log := logged(t)
	whole, all := typical(t)
	delete(all, "a")
	all["d"] = "4"
	lines := strings.Split(strings.TrimSpace(whole), "\n")
	lines = append(slices.Delete(slices.Delete(lines, 4, 5), 1, 2), "", `  {"kind": "k", "key": "d", "value": "4"}`)
	for _, end := range []string{"\n", "\r\n"} {
		for _, last := range []string{end, ""} {
			path := filepath.Join(t.TempDir(), "j")
			write(t, path, strings.Join(lines, end)+last)
			j := open(t, path)
			want(t, j, all)
			put(t, j, "e", "5")
			j.Close()
			j = open(t, path)
			if got, ok := j.Get("k", "e"); !ok || len(content(j)) != len(all)+1 {
				t.Errorf("%s, %q", got, content(j))
			}
		}
	}
	if log.Len() != 0 {
		t.Error(log)
	}
}

// CLI-6: what is not a file of this format is an error that says why and what to do, and stays.
func TestRefused(t *testing.T) {
	whole, _ := typical(t)
	header, rest, _ := strings.Cut(whole, "\n")
	newer, err := encode(Header{"test", 2})
	if err != nil {
		t.Fatal(err)
	}
	const unreleased = "it was made by an unreleased build of mcpe-gen (version %d); use a new file"
	damaged := "line 1 is damaged, or it is not a file of test; name another file or, if it is one, make its first line " + header
	path := filepath.Join(t.TempDir(), "j")
	for text, said := range map[string]string{
		"":                        "it is empty, so what it had is lost; remove it to begin with a new one",
		strings.Repeat("\x00", 9): "it has 9 bytes, all of them zero, so what it had is lost; remove it to begin with a new one",
		strings.Replace(whole, `"version":1`, `"version":2`, 1): damaged,
		strings.Replace(whole, `"sum"`, `"sun"`, 1):             damaged,
		header[:len(header)/2]:                                  damaged,
		"my notes\n":                                            damaged,
		"{}":                                                    "it is not a file of test",
		strings.Replace(header, `"test"`, `"else"`, 1):          damaged,
		`{"format":"else","version":1}`:                         "it is not a file of test",
		string(newer) + rest:                                    "a newer release wrote it (version 2, this release knows 1); upgrade mcpe-gen",
		`{"format":"test","version":0}`:                         "corrupted: version 0",
		`{"format":"test","version":1}` + "\n" + rest:           fmt.Sprintf(unreleased, 1),
		"{\"version\":2}\n":                                     fmt.Sprintf(unreleased, 2),
		"{\n  \"version\": 1,\n  \"cursors\": {}\n}\n":          fmt.Sprintf(unreleased, 1),
	} {
		write(t, path, text)
		if _, err := Open(t.Context(), path, format); err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%q: %v, want %q", text, err, said)
		}
		if left := read(t, path); left != text {
			t.Errorf("%q was changed to %q", text, left)
		}
	}
	if _, err := Open(t.Context(), filepath.Dir(path), format); err == nil || !strings.Contains(err.Error(), "it is not a regular file; name another one") {
		t.Errorf("a directory: %v", err)
	}
}

// Wherever a file is cut off, what is before is there, and it can be written.
func TestCutAnywhere(t *testing.T) {
	log := logged(t)
	whole, _ := typical(t)
	header := strings.Index(whole, "\n")
	path := filepath.Join(t.TempDir(), "j")
	for n := header; n <= len(whole); n++ {
		for _, zeros := range []int{0, 100} { // which a disk has in place of what was not written
			text := whole[:n] + strings.Repeat("\x00", zeros)
			write(t, path, text)
			j := open(t, path)
			got := content(j)
			if lines := strings.Count(whole[:n], "\n"); lines > 1 && got["a"] == "" || lines == 1 && len(got) > 1 {
				t.Errorf("%d bytes: %q", n, got)
			}
			put(t, j, "d", "4")
			j.Close()
			got["d"] = "4"
			j = open(t, path)
			want(t, j, got)
			j.Close()
		}
	}
	if log.Len() != 0 {
		t.Error(log)
	}
}
