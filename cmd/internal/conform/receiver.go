package conform

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// A receiver receives the webhooks of the server under test at unguessable paths.
type receiver struct {
	url    string
	web    *http.Server
	served chan struct{} // closed when web has stopped serving

	mu        sync.Mutex
	callbacks map[string]*callback // by the last path element
}

// A challengeAnswer determines how a callback responds to a challenge.
type challengeAnswer struct {
	status int
	// body is the body of the response. The verb %s is replaced with the challenge as a JSON string.
	body string
	// reasons are the reasons that the server may give for its error. If it is empty, the server may give any reason.
	reasons []wire.Category
	// location is where a redirect leads. hangs withholds the response until the request ends.
	location string
	hangs    bool
}

// echo is the body of a correct response to a challenge.
const echo = `{"challenge":%s}`

// echoes is the correct response to a challenge.
var echoes = challengeAnswer{status: http.StatusOK, body: echo}

// isValid reports whether the response verifies a callback.
func (a challengeAnswer) isValid() bool { return a.status/100 == 2 && a.body == echo && !a.hangs }

// A callback is one webhook endpoint and the requests that it received.
type callback struct {
	url, name string
	// challenge is the response to a challenge.
	challenge challengeAnswer
	// withhold delays the answer to a challenge until it is closed. It may be nil.
	withhold <-chan struct{}

	mu      sync.Mutex
	secret  string // the newest secret
	secrets []string
	asked   int // how many requests may have caused a challenge
	// redirectURL is the Location header of a redirect in response to an occurrence.
	redirectURL string
	// retryAfter is the Retry-After header of the response to a refused occurrence, or "".
	retryAfter string
	// decide returns the status code for an occurrence, or 0 for 204. The response waits until hang is closed.
	decide  func(eventID string, attempt int) (status int, hang <-chan struct{})
	tries   map[string]int
	posts   []post
	size    int // approximate size of posts in bytes
	changed chan struct{}
}

// A post is an HTTP request to a callback.
type post struct {
	header  http.Header
	body    []byte
	at      time.Time
	method  string
	kind    string // the type of an envelope, "" for an occurrence
	refused bool
	// isVerified reports whether a challenge was answered correctly.
	isVerified bool
}

// marker is part of the responses of failing callbacks. It must not appear in the server's messages (ERR-1).
const marker = "mcpe-gen-conform-endpoint-text"

// These limits apply to the posts that one callback retains.
const (
	maxPosts     = 20_000
	maxPostBytes = 32 << 20
)

func newReceiver(d *peer.Door) *receiver {
	r := &receiver{url: strings.TrimSuffix(d.URL, "/"), served: make(chan struct{}), callbacks: map[string]*callback{}}
	r.web = &http.Server{Handler: r, TLSConfig: d.TLS, ReadTimeout: 20 * time.Second,
		ErrorLog: log.New(io.Discard, "", 0)} // failed TLS handshakes do not belong in the report
	l := d.Listener
	if d.TLS != nil {
		l = tls.NewListener(l, d.TLS)
	}
	go func() {
		defer close(r.served)
		_ = r.web.Serve(l)
	}()
	return r
}

func (r *receiver) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if r.web.Shutdown(ctx) != nil {
		r.web.Close()
	}
	<-r.served
}

// secretSize is the size of a secret in bytes, unless a check needs another.
const secretSize = 30

// secretAlphabet contains the characters of secrets. JSON does not escape them, so secrets can be found and redacted.
const secretAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// randomSecret returns a random secret of size bytes.
func randomSecret(size int) string {
	text := make([]byte, base64.RawStdEncoding.EncodedLen(size))
	rand.Read(text)
	for i, b := range text {
		text[i] = secretAlphabet[int(b)%len(secretAlphabet)]
	}
	if size%3 != 0 { // the unused bits of the last letter are 0
		text[len(text)-1] = 'A'
	}
	return wire.SecretPrefix + string(text) + strings.Repeat("=", (3-size%3)%3)
}

// newCallback creates a callback and redacts its first secret in the report.
func (r *run) newCallback(a challengeAnswer) *callback {
	c := &callback{challenge: a, name: rand.Text(), changed: make(chan struct{})}
	c.url = r.receiver.url + "/" + c.name
	r.rotate(c)
	r.receiver.mu.Lock()
	defer r.receiver.mu.Unlock()
	r.receiver.callbacks[c.name] = c
	return c
}

// rotate calls setSecret with the usual size.
func (r *run) rotate(c *callback) { r.setSecret(c, secretSize) }

// setSecret replaces the callback's secret with one of the given size and retains the earlier ones.
func (r *run) setSecret(c *callback, size int) {
	secret := randomSecret(size)
	r.Hide(secret)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.secret = secret
	c.secrets = append(c.secrets, secret)
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	name := req.URL.Path[strings.LastIndexByte(req.URL.Path, '/')+1:]
	r.mu.Lock()
	c := r.callbacks[name]
	r.mu.Unlock()
	if c == nil {
		http.NotFound(w, req)
		return
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, wire.MaxBody+1))
	if err != nil {
		return
	}
	c.answer(w, req, post{method: req.Method, header: req.Header.Clone(), body: body, at: time.Now()})
}

func (c *callback) answer(w http.ResponseWriter, req *http.Request, p post) {
	var e struct {
		Type      string          `json:"type"`
		Challenge json.RawMessage `json:"challenge"`
	}
	_ = json.Unmarshal(p.body, &e)
	p.kind = e.Type
	p.isVerified = c.challenge.isValid()
	status := http.StatusServiceUnavailable
	var hang <-chan struct{}
	c.mu.Lock()
	switch {
	case p.kind != "":
	case c.decide != nil:
		id := (occurrence{raw: p.body}).eventID()
		c.tries[id]++
		status, hang = c.decide(id, c.tries[id])
		if p.refused = status != 0; c.retryAfter != "" {
			w.Header().Set("Retry-After", c.retryAfter)
		}
	}
	if len(c.posts) < maxPosts && c.size < maxPostBytes {
		c.size += len(p.body) + 1<<10
		c.posts = append(c.posts, p)
		close(c.changed)
		c.changed = make(chan struct{})
	}
	c.mu.Unlock()
	if isChallenge(p) {
		hang = c.withhold
	}
	if hang != nil {
		select {
		case <-hang:
		case <-req.Context().Done():
		}
	}
	switch {
	case p.refused:
		w.Header().Set("X-Conform", marker)
		if status/100 == 3 {
			w.Header().Set("Location", c.redirectURL)
		}
		http.Error(w, marker, status)
	case p.kind != wire.EnvelopeVerification:
		w.WriteHeader(http.StatusNoContent)
	case c.challenge.hangs:
		<-req.Context().Done()
	default:
		if w.Header().Set("Content-Type", "application/json"); c.challenge.location != "" {
			w.Header().Set("Location", c.challenge.location)
		}
		w.WriteHeader(c.challenge.status)
		io.WriteString(w, strings.ReplaceAll(c.challenge.body, "%s", string(e.Challenge)))
	}
}

// allCallbacks returns the callbacks created so far.
func (r *receiver) allCallbacks() []*callback {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.callbacks))
}

// hasChallenge reports whether the callback received a challenge.
func (c *callback) hasChallenge() bool { return slices.ContainsFunc(c.receivedPosts(), isChallenge) }

// setDecide sets the function that chooses the responses from now on.
func (c *callback) setDecide(decide func(eventID string, attempt int) (int, <-chan struct{})) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.decide = decide
	if c.tries == nil {
		c.tries = map[string]int{}
	}
}

// receivedPosts returns the posts so far.
func (c *callback) receivedPosts() []post {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.posts[:len(c.posts):len(c.posts)]
}

// occurrences returns the occurrences that were posted so far, for the subscription that from created.
func (c *callback) occurrences(from *exchange) (list []occurrence) {
	for _, p := range c.receivedPosts() {
		if isOccurrence(p) {
			list = append(list, occurrence{p.body, p.exchange(from)})
		}
	}
	return list
}

// await returns the first post at index from or later that satisfies want. It waits at most the given time.
func (c *callback) await(ctx context.Context, from int, most time.Duration, want func(post) bool) (post, bool) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		c.mu.Lock()
		posts, changed := c.posts, c.changed
		c.mu.Unlock()
		for ; from < len(posts); from++ {
			if want(posts[from]) {
				return posts[from], true
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return post{}, false
		}
	}
}

// verify checks a post's signature with the given secret. If it does not match, the error names the usual mistake that
// explains it.
func (p post) verify(secret string) error {
	s, err := webhook.ParseSecret(secret)
	if err != nil {
		return err
	}
	if _, err = (webhook.Verifier{Secrets: []webhook.Secret{s}}).Verify(p.header, p.body); err != nil {
		if mistake := p.mistake(secret); mistake != "" {
			return fmt.Errorf("%w; %s", err, mistake)
		}
	}
	return err
}

// mistake returns a description of the usual mistake of signing by which the post's signature comes from the secret, or
// "".
func (p post) mistake(secret string) string {
	id, at := p.header.Get(wire.HeaderWebhookID), p.header.Get(wire.HeaderWebhookTimestamp)
	text := strings.TrimPrefix(secret, wire.SecretPrefix)
	raw, _ := base64.StdEncoding.DecodeString(text)
	compact := canonicalJSON(p.body)
	type part struct{ what, text string }
	keys := []part{{"", string(raw)}, {"the key is the text of the secret, whsec_ included", secret}, {"the key is the text after whsec_, not decoded", text}}
	contents := []part{{"", id + "." + at + "." + string(p.body)}, {"only the body is signed", string(p.body)},
		{"the body is signed without the id", at + "." + string(p.body)}, {"the body is signed without the time", id + "." + string(p.body)},
		{"the time is signed before the id", at + "." + id + "." + string(p.body)}, {"the id, time and body are signed without dots", id + at + string(p.body)},
		{"another serialization of the body is signed", id + "." + at + "." + compact}}
	encodings := []struct {
		what   string
		encode func([]byte) string
	}{{"", base64.StdEncoding.EncodeToString}, {"the signature is hex", hex.EncodeToString},
		{"the signature is unpadded base64", base64.RawStdEncoding.EncodeToString}, {"the signature is URL-safe base64", base64.URLEncoding.EncodeToString}}
	given := strings.FieldsFunc(p.header.Get(wire.HeaderWebhookSignature), func(c rune) bool { return c == ' ' || c == ',' })
	for _, key := range keys {
		for _, content := range contents {
			mac := hmac.New(sha256.New, []byte(key.text))
			mac.Write([]byte(content.text))
			sum := mac.Sum(nil)
			for _, encoding := range encodings {
				if slices.Contains(given, encoding.encode(sum)) {
					found := []string{key.what, content.what, encoding.what}
					if len(at) > len("9999999999") {
						found = append(found, "the time is in milliseconds")
					}
					return strings.Join(slices.DeleteFunc(found, func(what string) bool { return what == "" }), ", and ")
				}
			}
		}
	}
	return ""
}

// exchange returns an exchange that shows the post.
func (p post) exchange(from *exchange) *exchange {
	h := map[string]string{}
	for _, name := range []string{"Content-Type", wire.HeaderWebhookID, wire.HeaderWebhookTimestamp,
		wire.HeaderWebhookSignature, wire.HeaderSubscriptionID} {
		if v := p.header.Get(name); v != "" {
			h[name] = v
		}
	}
	shown := append(verdict.Encode(h), ' ')
	return &exchange{request: from.request, answer: message{raw: append(shown, p.body...)}}
}
