package verify

import (
	"context"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/keylock"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/netguard"
)

// A receiverDocs caches the documents with which origins consent to callbacks (VER-1), for as long as the HTTP headers
// allow.
type receiverDocs struct {
	fetching keylock.Locks[string]
	mu       sync.Mutex
	byOrigin map[string]receiverDoc
	bytes    int // of all prefixes
}

type receiverDoc struct {
	prefixes []string // nil if the origin publishes nothing usable
	until    time.Time
}

// Limits on the lifetime, number and size of documents.
const (
	defaultCacheTime = 5 * time.Minute // without Cache-Control
	maxCacheTime     = time.Hour
	failureCacheTime = time.Minute
	maxDocuments     = 4096
	// maxDocumentBytes is the maximum total size of all documents.
	maxDocumentBytes = 4 << 20
	documentTime     = 2 * time.Second
	MaxReceivers     = 256
)

func originOf(u *url.URL) string { return hostOf(u) + "|" + portOf(u) }

// hasCached reports whether a cached document covers the callback.
func (r *receiverDocs) hasCached(u *url.URL) bool {
	if u.Scheme != "https" {
		return false
	}
	d, _ := r.cached(originOf(u))
	return d.coversCallback(u)
}

func (r *receiverDocs) cached(origin string) (receiverDoc, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, ok := r.byOrigin[origin]
	if ok && !time.Now().Before(d.until) {
		r.remove(origin)
		return receiverDoc{}, false
	}
	return d, ok
}

// fetchAndCheck reports whether the origin's document covers the callback. It fetches the document if it is not cached.
// It sends only one request to an origin at a time.
func (r *receiverDocs) fetchAndCheck(ctx context.Context, g *netguard.Guard, u *url.URL) bool {
	if u.Scheme != "https" {
		return false // an attacker on the path could consent for a plain http origin
	}
	origin := originOf(u)
	unlock, err := r.fetching.Lock(ctx, origin)
	if err != nil {
		return false
	}
	defer unlock()
	if d, ok := r.cached(origin); ok {
		return d.coversCallback(u)
	}
	d, keep := fetchDocument(ctx, g, u)
	if keep > 0 && ctx.Err() == nil {
		d.until = time.Now().Add(keep)
		r.put(origin, d)
	}
	return d.coversCallback(u)
}

func (r *receiverDocs) put(origin string, d receiverDoc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(origin)
	if r.byOrigin == nil || len(r.byOrigin) >= maxDocuments || r.bytes+d.size() > maxDocumentBytes {
		r.byOrigin, r.bytes = map[string]receiverDoc{}, 0
	}
	r.byOrigin[origin] = d
	r.bytes += d.size()
}

// remove removes an origin. The caller must hold mu.
func (r *receiverDocs) remove(origin string) {
	if d, ok := r.byOrigin[origin]; ok {
		r.bytes -= d.size()
		delete(r.byOrigin, origin)
	}
}

// size returns the approximate size of the document in memory, in bytes.
func (d receiverDoc) size() int {
	n := 0
	for _, p := range d.prefixes {
		n += len(p) + 16
	}
	return n
}

// fetchDocument fetches the document. The result keep is the time for which the document can be cached.
func fetchDocument(ctx context.Context, g *netguard.Guard, u *url.URL) (d receiverDoc, keep time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, documentTime)
	defer cancel()
	at := url.URL{Scheme: u.Scheme, Host: u.Host, Path: wire.PathReceivers}
	a, err := g.Fetch(ctx, netguard.Request{URL: at.String(), Header: http.Header{"Accept": {"application/json"}}})
	if err != nil || a.Status != http.StatusOK || a.Truncated {
		return d, failureCacheTime
	}
	var doc wire.Receivers
	if jsonv2.Unmarshal(a.Body, &doc) != nil || len(doc.Receivers) > MaxReceivers {
		return d, failureCacheTime
	}
	d.prefixes = doc.Receivers
	return d, cacheDuration(a.Header)
}

// cacheDuration returns the time for which a response can be cached according to its headers and this package's limits.
func cacheDuration(h http.Header) time.Duration {
	keep := defaultCacheTime
	for _, line := range h.Values("Cache-Control") {
		for _, d := range strings.Split(strings.ToLower(line), ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(d), "=")
			switch name {
			case "no-store", "no-cache":
				return 0
			case "max-age":
				if n, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31); err == nil {
					keep = time.Duration(n) * time.Second
				}
			}
		}
	}
	if n, err := strconv.ParseUint(h.Get("Age"), 10, 31); err == nil {
		keep -= time.Duration(n) * time.Second
	}
	return min(max(keep, 0), maxCacheTime)
}

// coversCallback reports whether the callback's path starts with a prefix of the document.
func (d receiverDoc) coversCallback(u *url.URL) bool {
	p, ok := normalPath(u)
	return ok && slices.ContainsFunc(d.prefixes, func(prefix string) bool {
		return strings.HasPrefix(prefix, "/") && strings.HasPrefix(p, prefix)
	})
}

// normalPath returns the path without dot segments and percent-encoding. It returns false for a path that servers can
// interpret in different ways.
func normalPath(u *url.URL) (string, bool) {
	escaped := strings.ToLower(u.EscapedPath())
	for _, odd := range []string{"%2f", "%5c", "%00", "%2e", "%25", "\\", "//"} {
		if strings.Contains(escaped, odd) {
			return "", false
		}
	}
	if u.Path == "" {
		return "/", true
	}
	p := path.Clean(u.Path)
	if strings.HasSuffix(u.Path, "/") && p != "/" {
		p += "/"
	}
	return p, true
}
