package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

var format = Format{Header: Header{"test", 1}}

func open(t *testing.T, path string) *Journal {
	t.Helper()
	j, err := Open(t.Context(), path, format)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func put(t *testing.T, j *Journal, key, value string) {
	t.Helper()
	if err := j.Put(entry(key, value)); err != nil {
		t.Fatal(err)
	}
}

func entry(key, value string) Entry {
	e := Entry{Kind: "k", Key: key}
	if value != "" {
		e.Value, _ = json.Marshal(value)
	}
	return e
}

func content(j *Journal) map[string]string {
	all := map[string]string{}
	for _, e := range j.All("k") {
		var v string
		json.Unmarshal(e.Value, &v)
		all[e.Key] = v
	}
	return all
}

func want(t *testing.T, j *Journal, all map[string]string) {
	t.Helper()
	if got := content(j); !maps.Equal(got, all) {
		t.Errorf("it has %q, want %q", got, all)
	}
}

// Wherever the last write was cut off, everything before it is there, and what follows is kept.
func TestCutOff(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "j")
	j := open(t, path)
	put(t, j, "a", "1")
	put(t, j, "b", "1")
	put(t, j, "b", "")
	put(t, j, "a", "2")
	before, _ := os.ReadFile(path)
	put(t, j, "c", "3")
	after, _ := os.ReadFile(path)
	if !strings.HasPrefix(string(after), string(before)) || len(after) == len(before) {
		t.Fatalf("the file was not appended to:\n%s%s", before, after)
	}
	for n := len(before); n <= len(after); n++ {
		cut := filepath.Join(dir, fmt.Sprint(n))
		if err := os.WriteFile(cut, after[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		all := map[string]string{"a": "2"}
		if n >= len(after)-1 { // all but the end of the line is there
			all["c"] = "3"
		}
		j := open(t, cut)
		want(t, j, all)
		put(t, j, "d", "4")
		j.Close()
		all["d"] = "4"
		want(t, open(t, cut), all)
	}
}

// The file does not grow with the number of changes, and a change does not write what it does not touch.
func TestWrittenAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j := open(t, path)
	long := strings.Repeat("x", 1000)
	for i := range 100 {
		put(t, j, fmt.Sprint("k", i), long)
	}
	anew, last := 0, int64(0)
	for i := range 1000 {
		put(t, j, "k0", fmt.Sprint(long, i))
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() < last {
			anew++
		}
		if last = info.Size(); last > 2*100*1100+maxSlack {
			t.Fatalf("%d bytes after %d changes", last, i)
		}
	}
	if anew == 0 || anew > 10 {
		t.Errorf("written anew %d times", anew)
	}
	j.Close()
	all := content(open(t, path))
	if len(all) != 100 || all["k0"] != long+"999" {
		t.Errorf("%d keys, %q", len(all), all["k0"])
	}
}

// A file that somebody removed or replaced is written anew with everything.
func TestReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j := open(t, path)
	put(t, j, "a", "1")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	put(t, j, "b", "2")
	if err := os.Rename(path, path+"2"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, j, "c", "3")
	j.Close()
	want(t, open(t, path), map[string]string{"a": "1", "b": "2", "c": "3"})
}

// After a write that fails everything is as before, in the file too once it can be written.
func TestWriteFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j := open(t, path)
	put(t, j, "a", "1")
	j.file.Close()
	var err error
	if j.file, err = os.Open(path); err != nil { // which cannot be written
		t.Fatal(err)
	}
	if err := j.Put(entry("a", "2")); err == nil {
		t.Error("it was written")
	}
	want(t, j, map[string]string{"a": "1"})
	put(t, j, "b", "1")
	j.Close()
	want(t, open(t, path), map[string]string{"a": "1", "b": "1"})
}

// CLI-6: changes that share a write share its error, so that nobody believes that a change is kept which is not.
func TestSharedWriteFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	j := open(t, filepath.Join(dir, "j"))
	put(t, j, "a", "1")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	const writers = 20
	errs := make([]error, writers)
	var wg sync.WaitGroup
	j.writing.Lock() // as a write holds it
	for i := range writers {
		wg.Go(func() { errs[i] = j.Put(entry(fmt.Sprint("k", i), "1")) })
	}
	for gathered := 0; gathered < writers; runtime.Gosched() {
		j.mu.Lock()
		if j.next != nil {
			gathered = len(j.next.entries)
		}
		j.mu.Unlock()
	}
	j.writing.Unlock()
	wg.Wait()
	for i, err := range errs {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("change %d in a directory that is gone: %v", i, err)
		}
	}
	want(t, j, map[string]string{"a": "1"})
}

// Changes at the same time are all kept.
func TestAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j := open(t, path)
	all := map[string]string{}
	var wg sync.WaitGroup
	for i := range 50 {
		key := fmt.Sprint("k", i)
		all[key] = "9"
		wg.Go(func() {
			for n := range 10 {
				put(t, j, key, fmt.Sprint(n))
				if got, _ := j.Get("k", key); string(got) != fmt.Sprintf(`"%d"`, n) {
					t.Errorf("%s after %d", got, n)
				}
			}
		})
	}
	wg.Wait()
	want(t, j, all)
	j.Close()
	want(t, open(t, path), all)
	if err := j.Put(entry("a", "1")); !errors.Is(err, store.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// A commit among 1 and among 100 subscriptions with 4,096 ids each (K11).
func BenchmarkPut(b *testing.B) {
	value, _ := json.Marshal(strings.Repeat("0197a3c4-7f00-7000-8000-000000000000,", 4096))
	for _, keys := range []int{1, 10, 100} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			j, err := Open(b.Context(), filepath.Join(b.TempDir(), "j"), format)
			if err != nil {
				b.Fatal(err)
			}
			defer j.Close()
			for i := 0; b.Loop(); i++ {
				if err := j.Put(Entry{Kind: "k", Key: fmt.Sprint(i % keys), Value: value}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
