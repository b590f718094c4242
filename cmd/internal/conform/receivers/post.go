package receivers

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
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
	method, url string
	header      map[string]string
	body        []byte
}

// An exchange is a message and the response to it.
type exchange struct {
	// request and answer are shown in the report.
	request, answer []byte
	status          int
	// body contains the first maxAnswer bytes of the response body.
	body []byte
}

// maxAnswer limits how much of a response is read. The response to a challenge is much shorter.
const maxAnswer = 64 << 10

// violation returns a violation that shows the exchange.
func (x *exchange) violation(expected, got string, args ...any) *verdict.Violation {
	return &verdict.Violation{Request: x.request, Answer: x.answer, Expected: expected, Got: fmt.Sprintf(got, args...)}
}

// asAdvice turns a violation into advice.
func asAdvice(v *verdict.Violation) *verdict.Violation {
	v.Mild = true
	return v
}

func (x *exchange) taken() bool { return x.status >= 200 && x.status < 300 }

// newClient returns an HTTP client that does not follow redirects, like a server. It uses each connection only once so
// that requests do not affect each other.
func newClient(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	return &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: dial, DisableKeepAlives: true,
			TLSHandshakeTimeout: 5 * time.Second, ExpectContinueTimeout: time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// signedMessage returns a message with the given ID and time, signed with the key.
func (r *run) signedMessage(key []byte, id string, at time.Time, body []byte) message {
	m := message{method: http.MethodPost, url: r.o.URL, body: body, header: map[string]string{
		"Content-Type":              "application/json",
		wire.HeaderWebhookID:        id,
		wire.HeaderSubscriptionID:   r.o.Subscription,
		wire.HeaderWebhookTimestamp: strconv.FormatInt(at.Unix(), 10),
	}}
	m.sign(key)
	return m
}

// sign sets the signature for the current content of the message.
func (m *message) sign(key []byte) {
	m.header[wire.HeaderWebhookSignature] = signature(key, m.header[wire.HeaderWebhookID],
		m.header[wire.HeaderWebhookTimestamp], m.body)
}

// signature returns the Standard Webhooks signature: HMAC-SHA256 over the id, the timestamp and the bytes of the body.
func signature(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.", id, timestamp)
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// newEventID returns an unused eventId.
func newEventID() string { return "evt_" + rand.Text() }

// occurrence returns the body of an occurrence. members adds members or replaces the standard ones.
func (r *run) occurrence(id string, members map[string]any) []byte {
	o := map[string]any{"eventId": id, "name": r.o.Event, "timestamp": time.Now().UTC().Format(time.RFC3339Nano),
		"data": r.o.Data, "cursor": "conform-" + id}
	maps.Copy(o, members)
	return encode(o)
}

// newEvent returns a valid new occurrence and its eventId.
func (r *run) newEvent(members map[string]any) (string, message) {
	id := newEventID()
	return id, r.signedMessage(r.key, id, time.Now(), r.occurrence(id, members))
}

// newControl returns a valid control envelope and its webhook-id.
func (r *run) newControl(kind string, members map[string]any) (string, message) {
	id := "msg_" + kind + "_" + rand.Text()
	e := map[string]any{"type": kind}
	maps.Copy(e, members)
	return id, r.signedMessage(r.key, id, time.Now(), encode(e))
}

// encode marshals v without the escapes that are specific to Go's encoder.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("conform: a message that is not JSON: %v", err))
	}
	return bytes.TrimSpace(b.Bytes())
}

// reportText returns the message as it appears in the report.
func (m message) reportText() []byte {
	u, err := url.Parse(m.url)
	path := ""
	if err == nil {
		path = u.EscapedPath()
	}
	return slices.Concat([]byte(m.method+" "+path+" "), encode(m.header), []byte(" "), m.body)
}

// post sends the message and reads the response. It returns an error if no response arrives in time.
func (r *run) post(ctx context.Context, m message) (*exchange, error) {
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
	for name, value := range m.header {
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
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	x.status, x.body = res.StatusCode, body[:min(len(body), maxAnswer)]
	x.answer = fmt.Appendf(nil, "%d %s", res.StatusCode, x.body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unanswered++; ctx.Err() == nil { // otherwise the answer did not end in time
		r.unanswered = 0
	}
	if late && r.lateExchange == nil {
		r.lateExchange = x
	}
	if (err != nil || len(body) > maxAnswer) && r.endlessExchange == nil {
		r.endlessExchange = x
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

// expectAccepted posts a message that the receiver must accept.
func (r *run) expectAccepted(ctx context.Context, m message) (*exchange, error) {
	x, err := r.post(ctx, m)
	if err == nil && !x.taken() {
		err = x.violation("2xx", "%d", x.status)
	}
	return x, err
}

// expectRefused posts a message that the receiver must reject with 4xx. A 5xx response, after which a server retries,
// is only advice.
func (r *run) expectRefused(ctx context.Context, m message) (*exchange, error) {
	x, err := r.post(ctx, m)
	switch {
	case err != nil:
		return x, err
	case x.status >= 400 && x.status < 500:
		return x, nil
	case x.status >= 500:
		return x, asAdvice(x.violation("4xx", "%d, after which a server sends it again", x.status))
	}
	return x, x.violation("4xx", "%d", x.status)
}

// expectEventAccepted posts an occurrence that the receiver must accept and handle once.
func (r *run) expectEventAccepted(ctx context.Context, id string, m message) error {
	x, err := r.expectAccepted(ctx, m)
	if err != nil {
		return err
	}
	r.once(id, x)
	return nil
}

// expectEventRefused posts an occurrence that the receiver must reject and never handle.
func (r *run) expectEventRefused(ctx context.Context, id string, m message) error {
	x, err := r.expectRefused(ctx, m)
	r.never(id, x)
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
