package verify

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestDocumentsAreBounded keeps consent documents within a number and within bytes: origins that fill
// the cache cost others a question, no more (VER-1).
func TestDocumentsAreBounded(t *testing.T) {
	var r receiverDocs
	long := receiverDoc{prefixes: []string{"/" + strings.Repeat("x", 8000)}, until: time.Now().Add(time.Hour)}
	for i := range 5000 {
		r.put(fmt.Sprint("o", i), long)
		r.put(fmt.Sprint("o", i), long) // again
		if total := len(r.byOrigin) * long.size(); total > maxDocumentBytes || total != r.bytes {
			t.Fatalf("%d documents of %d bytes, counted %d", len(r.byOrigin), total, r.bytes)
		}
	}
	for i := range 2 * maxDocuments {
		r.put(fmt.Sprint("small", i), receiverDoc{until: time.Now().Add(time.Hour)})
		if len(r.byOrigin) > maxDocuments {
			t.Fatalf("%d documents", len(r.byOrigin))
		}
	}
}

// TestVER1DocumentCaching keeps the well-known document as HTTP allows, within our bound (VER-1).
func TestVER1DocumentCaching(t *testing.T) {
	for _, c := range []struct {
		header http.Header
		want   time.Duration
	}{
		{nil, 5 * time.Minute},
		{http.Header{"Cache-Control": {"max-age=60"}}, time.Minute},
		{http.Header{"Cache-Control": {"public, max-age=60"}, "Age": {"45"}}, 15 * time.Second},
		{http.Header{"Cache-Control": {"max-age=60"}, "Age": {"90"}}, 0},
		{http.Header{"Cache-Control": {"max-age=99999999"}}, time.Hour},
		{http.Header{"Cache-Control": {"max-age=-1"}}, 5 * time.Minute},
		{http.Header{"Cache-Control": {"private", "no-store"}}, 0},
		{http.Header{"Cache-Control": {"No-Cache, max-age=60"}}, 0},
	} {
		if got := cacheDuration(c.header); got != c.want {
			t.Errorf("%v: %s, want %s", c.header, got, c.want)
		}
	}
}

// TestNormalPath: a path with two readings has none.
func TestNormalPath(t *testing.T) {
	for raw, want := range map[string]string{
		"https://h": "/", "https://h/": "/", "https://h/a/": "/a/", "https://h/a/./b": "/a/b", "https://h/a/../b": "/b", "https://h/../b": "/b",
		"https://h/%61": "/a", "https://h/a%2Fb": "", "https://h/a%5cb": "", "https://h//a": "", "https://h/%2e%2e/a": "", "https://h/a%00": "", "https://h/%252e": "",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := normalPath(u); got != want || ok != (want != "") {
			t.Errorf("%s: %q %v, want %q", raw, got, ok, want)
		}
	}
}
