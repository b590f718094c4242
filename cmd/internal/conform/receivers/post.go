package receivers

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/useragent"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A message is an HTTP request to send. The functions that create a message sign it like a correct server.
type message struct {
	// id is the line of the message in the file of handled messages: an eventId, or the webhook-id of a control envelope.
	id          string
	method, url string
	header      map[string]string
	body        []byte
	// chunked sends the body without its length. spell changes the names of the headers, unless it is nil.
	chunked bool
	spell   func(name string) string
}

// An exchange is a message and the response to it.
type exchange struct {
	// request and answer are shown in the report.
	request, answer []byte
	status          int
	// header is the header of the response.
	header http.Header
	// body contains the first maxAnswer bytes of the response body.
	body []byte
}

// maxAnswer limits how much of a response is read, as servers do (SSRF-2).
const maxAnswer = 8 << 10

// violation returns a violation that shows the exchange.
func (x *exchange) violation(expected, got string, args ...any) *verdict.Violation {
	return &verdict.Violation{Request: x.request, Answer: x.answer, Expected: expected, Got: fmt.Sprintf(got, args...)}
}

func (x *exchange) taken() bool { return x.status >= 200 && x.status < 300 }

// newClient returns an HTTP client that does not follow redirects, like a server. It uses each connection only once so
// that requests do not affect each other.
func newClient(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	return &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: dial, DisableKeepAlives: true, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: 5 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// signedMessage returns a signed message with the given webhook-id and time.
func (r *run) signedMessage(id string, at time.Time, body []byte) message {
	m := message{id: id, method: http.MethodPost, url: r.o.URL, body: body, header: map[string]string{
		"Content-Type":              "application/json",
		wire.HeaderWebhookID:        id,
		wire.HeaderSubscriptionID:   r.o.Subscription,
		wire.HeaderWebhookTimestamp: strconv.FormatInt(at.Unix(), 10),
	}}
	return m.sign(r.key)
}

// sign returns the message with the signature for its current content.
func (m message) sign(key []byte) message {
	return m.with(wire.HeaderWebhookSignature, signature(key, m.header[wire.HeaderWebhookID],
		m.header[wire.HeaderWebhookTimestamp], m.body))
}

// signature returns the Standard Webhooks signature: HMAC-SHA256 over the id, the timestamp and the bytes of the body.
func signature(key []byte, id, timestamp string, body []byte) string {
	return signatureOf(key, []byte(id+"."+timestamp+"."), body)
}

// signatureOf returns a v1 signature of the concatenated parts.
func signatureOf(key []byte, parts ...[]byte) string {
	mac := hmac.New(sha256.New, key)
	for _, part := range parts {
		mac.Write(part)
	}
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// newEventID returns an unused eventId.
func newEventID() string { return "evt_" + rand.Text() }

// with returns the message with another value of a header, or without the header if the value is "". It does not sign.
func (m message) with(name, value string) message {
	m.header = maps.Clone(m.header)
	if m.header[name] = value; value == "" {
		delete(m.header, name)
	}
	return m
}

// isChallenge reports whether the message is a verification.
func (m message) isChallenge() bool {
	return strings.HasPrefix(m.header[wire.HeaderWebhookID], "msg_"+wire.EnvelopeVerification)
}

// mac returns the HMAC of the message's signature.
func (m message) mac() []byte {
	mac, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.header[wire.HeaderWebhookSignature], "v1,"))
	return mac
}

// occurrence returns the body of an occurrence. members adds members or replaces the standard ones.
func (r *run) occurrence(id string, members map[string]any) []byte {
	o := map[string]any{"eventId": id, "name": r.o.Event, "timestamp": time.Now().UTC().Format(time.RFC3339Nano),
		"data": r.o.Data, "cursor": "conform-" + id}
	maps.Copy(o, members)
	return verdict.Encode(o)
}

// newEvent returns a valid new occurrence.
func (r *run) newEvent(members map[string]any) message { return r.eventOf(newEventID(), members) }

// eventOf returns a valid occurrence with the eventId.
func (r *run) eventOf(id string, members map[string]any) message {
	return r.signedMessage(id, time.Now(), r.occurrence(id, members))
}

// repeat returns another attempt of the event with the webhook-id, a new timestamp and the body.
func (r *run) repeat(e message, webhookID string, body []byte) message {
	m := r.signedMessage(webhookID, time.Now(), body)
	m.id = e.id
	return m
}

// newControl returns a valid control envelope.
func (r *run) newControl(kind string, members map[string]any) message {
	e := map[string]any{"type": kind}
	maps.Copy(e, members)
	return r.signedMessage("msg_"+kind+"_"+rand.Text(), time.Now(), verdict.Encode(e))
}

// reportText returns the message as it appears in the report.
func (m message) reportText() []byte {
	u, err := url.Parse(m.url)
	path := ""
	if err == nil {
		path = u.EscapedPath()
	}
	return slices.Concat([]byte(m.method+" "+path+" "), verdict.Encode(m.header), []byte(" "), m.body)
}

// post sends the message and returns the response. It repeats the message while the receiver starts, and as often
// as a server if the receiver limits requests. It returns an error if no response arrives in time.
func (r *run) post(ctx context.Context, m message) (*exchange, error) {
	for limited := 0; ; {
		x, err := r.send(ctx, m)
		unready := err == nil && x.status >= http.StatusBadGateway && x.status <= http.StatusGatewayTimeout
		if !unready && !m.isChallenge() || time.Now().After(r.readyBy) {
			r.ready.Store(true) // a receiver may respond to challenges before it can store events
		}
		limits := err == nil && x.status == http.StatusTooManyRequests
		pause := readyPause
		switch ready := r.ready.Load(); {
		case limits && limited == maxLimited:
			return x, verdict.Unjudgedf("the receiver limits requests: %d, again after Retry-After", x.status)
		case !limits && (!unready || ready && (limited > 0 || x.header.Get("Retry-After") == "")):
			return x, err
		case ready:
			limited, pause = limited+1, retryAfter(x.header)
		}
		if !sleep(ctx, pause) {
			return x, verdict.ErrRunEnded
		}
	}
}

// readyPause is the pause between attempts while the receiver starts. maxLimited is how often a message is repeated after
// 429, as a server does by default (HOOK-3). maxRetryAfter limits a Retry-After.
const (
	readyPause    = 250 * time.Millisecond
	maxLimited    = 4
	maxRetryAfter = 20 * time.Second
)

// retryAfter returns the pause that a response requests in seconds or as a date, from one second to maxRetryAfter.
func retryAfter(h http.Header) time.Duration {
	pause, _ := wire.RetryAfter(h.Get("Retry-After"), time.Now().Add(-time.Second)) // a date has whole seconds
	return max(time.Second, min(pause, maxRetryAfter))
}

// send sends the message once and reads the response.
func (r *run) send(ctx context.Context, m message) (*exchange, error) {
	x := &exchange{request: m.reportText()}
	r.mu.Lock()
	r.last = x
	r.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, r.o.pace.patience, fmt.Errorf("no answer within %v", r.o.pace.patience))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, m.method, m.url, bytes.NewReader(m.body))
	if err != nil {
		return x, err
	}
	if m.chunked {
		req.ContentLength = -1
	}
	for name, value := range m.header {
		if m.spell != nil {
			name = m.spell(name)
		}
		req.Header[name] = []string{value} // keep the spelling
	}
	useragent.Set(req.Header, useragent.Default())
	began := time.Now()
	res, err := r.client.Do(req)
	late := time.Since(began) > r.o.pace.answer
	if err != nil {
		r.awaitEnd(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.unanswered++
		return x, requestFailure(ctx, err)
	}
	defer res.Body.Close()
	x.status, x.header = res.StatusCode, res.Header
	x.body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer)) // a server ignores the rest of the response as well
	x.answer = fmt.Appendf(nil, "%d %s", res.StatusCode, x.body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		r.unanswered++
		return x, requestFailure(ctx, err) // the answer did not end in time
	}
	r.unanswered = 0
	if late {
		r.late = append(r.late, x)
	}
	return x, nil
}

// awaitEnd waits briefly for an unresponsive program to exit, because it may be about to crash.
func (r *run) awaitEnd(ctx context.Context) {
	if r.program == nil {
		return
	}
	select {
	case <-r.program.Exited():
	case <-time.After(r.o.pace.quiet):
	case <-ctx.Done():
	}
}

// requestFailure returns the reason why a request failed, without the URL.
func requestFailure(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the connection was closed without an answer")
	case errors.Is(err, net.ErrClosed):
		return errors.New("the connection was closed")
	}
	return err
}

// expectAccepted posts a message that the receiver must accept. If the receiver makes a known mistake, only the first
// check that fails reports it.
func (r *run) expectAccepted(ctx context.Context, m message) (*exchange, error) {
	x, err := r.post(ctx, m)
	if err != nil || x.taken() {
		r.accepted = r.accepted || err == nil
		return x, err
	}
	mistake := r.findMistake(ctx, m, x)
	switch {
	case mistake == "":
		return x, x.violation("2xx", "%d", x.status)
	case r.mistaken != "":
		return x, verdict.Skipf("fails like %s: the receiver accepts %s", r.mistaken, mistake)
	}
	r.mistaken = r.name
	return x, x.violation("2xx", "%d, but it accepts %s", x.status, mistake)
}

// expectRefused posts a message that the receiver must refuse and never handle. No document names the status. After 5xx
// every server repeats the message, so 4xx is advised.
func (r *run) expectRefused(ctx context.Context, m message) error {
	x, err := r.post(ctx, m)
	r.never(m.id, x)
	switch {
	case err != nil || x.status >= 400 && x.status < 500:
		return err
	case x.status >= 500:
		return x.violation("4xx", "%d, after which a server sends it again", x.status).AsAdvice()
	}
	return x.violation("4xx", "%d", x.status)
}

// expectHandled posts a message that the receiver must accept and handle once.
func (r *run) expectHandled(ctx context.Context, m message) error {
	x, err := r.expectAccepted(ctx, m)
	if err == nil {
		r.once(m.id, x)
	}
	return err
}

// awaitServer waits until the URL accepts connections. It waits as long as the program may take to start. If Run did
// not start a program, it tries only once.
func (r *run) awaitServer(ctx context.Context) error {
	u, err := url.Parse(r.o.URL)
	if err != nil {
		return err
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	ctx, cancel := context.WithTimeout(ctx, r.o.pace.start)
	defer cancel()
	for {
		c, err := r.o.dial(ctx, "tcp", host)
		if err == nil {
			r.ready.Store(false)
			r.readyBy = time.Now().Add(r.o.pace.ready)
			return c.Close()
		}
		err = fmt.Errorf("connecting to %s: %w", host, err)
		if r.program == nil {
			return err
		}
		select {
		case <-r.program.Exited():
			return fmt.Errorf("%s ended before it could be reached at %s", filepath.Base(r.o.Command[0]), host)
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// replacePath returns the URL with another path.
func replacePath(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/")+"-"+rand.Text(), ""
	return u.String()
}
