package verify

import (
	"context"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/keylock"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/netguard"
)

// receiverDocs caches the documents by which origins consent to callbacks (VER-1), for as long as HTTP allows.
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
	d, _ := r.get(originOf(u))
	return d.covers(u)
}

func (r *receiverDocs) get(origin string) (receiverDoc, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, ok := r.byOrigin[origin]
	if ok && !time.Now().Before(d.until) {
		r.drop(origin)
		return receiverDoc{}, false
	}
	return d, ok
}

// fetch fetches the origin's document unless it is cached and reports whether it covers the callback. It makes only one
// request to an origin at a time.
func (r *receiverDocs) fetch(ctx context.Context, g *netguard.Guard, u *url.URL) bool {
	if u.Scheme != "https" {
		return false // an attacker on the path could consent for a plain http origin
	}
	origin := originOf(u)
	unlock, err := r.fetching.Lock(ctx, origin)
	if err != nil {
		return false
	}
	defer unlock()
	if d, ok := r.get(origin); ok {
		return d.covers(u)
	}
	d, keep := fetchDocument(ctx, g, u)
	if keep > 0 && ctx.Err() == nil {
		d.until = time.Now().Add(keep)
		r.put(origin, d)
	}
	return d.covers(u)
}

func (r *receiverDocs) put(origin string, d receiverDoc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(origin)
	if r.byOrigin == nil || len(r.byOrigin) >= maxDocuments || r.bytes+d.size() > maxDocumentBytes {
		r.byOrigin, r.bytes = map[string]receiverDoc{}, 0
	}
	r.byOrigin[origin] = d
	r.bytes += d.size()
}

// drop removes an origin. The caller must hold mu.
func (r *receiverDocs) drop(origin string) {
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

// fetchDocument fetches the document. The result keep is how long the document may be cached.
func fetchDocument(ctx context.Context, g *netguard.Guard, u *url.URL) (d receiverDoc, keep time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, documentTime)
	defer cancel()
	at := url.URL{Scheme: u.Scheme, Host: u.Host, Path: wire.PathReceivers}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return d, failureCacheTime
	}
	req.Header.Set("Accept", "application/json")
	a, err := g.Fetch(req)
	if err != nil || a.Status != http.StatusOK || a.Truncated {
		return d, failureCacheTime
	}
	var doc wire.Receivers
	if jsonv2.Unmarshal(a.Body, &doc) != nil || len(doc.Receivers) > MaxReceivers {
		return d, failureCacheTime
	}
	d.prefixes = doc.Receivers
	return d, cacheTime(a.Header)
}

// cacheTime returns how long a response may be cached according to its headers and this package's limits.
func cacheTime(h http.Header) time.Duration {
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

// covers reports whether the callback's path starts with a prefix of the document.
func (d receiverDoc) covers(u *url.URL) bool {
	p, ok := normalPath(u)
	if !ok {
		return false
	}
	for _, prefix := range d.prefixes {
		if strings.HasPrefix(prefix, "/") && strings.HasPrefix(p, prefix) {
			return true
		}
	}
	return false
}

// normalPath returns the path without dot segments and percent-encoding. It returns false for a path that servers may
// interpret differently.
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
