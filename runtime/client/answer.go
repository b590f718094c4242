package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// read reads an HTTP response that is not a stream and returns its result or its error. session says whether the
// request had a session ID.
func (c *call) read(resp *http.Response, id string, session bool, limit int64) (json.RawMessage, error) {
	if resp.StatusCode >= 300 {
		return nil, c.refused(resp, id, session)
	}
	if kind := mediaType(resp); kind != typeJSON {
		return nil, c.unusable(fmt.Errorf("the content type is %q, not %s or %s: %w",
			clipped([]byte(resp.Header.Get("Content-Type"))), typeJSON, typeSSE, statusOf(resp, readRefusal(resp))))
	}
	body, err := readAnswer(resp, limit)
	switch {
	case errors.Is(err, ErrTooLarge):
		return nil, c.unusable(err)
	case err != nil:
		return nil, brokeOff("the answer broke off", err)
	}
	m, err := decodeMessage(body)
	r, ok := m.(*jsonrpc.Response)
	switch {
	case err != nil:
		return nil, c.unusable(notMessage(err, body))
	case !ok:
		return nil, c.unusable(errors.New("a request, not a response"))
	case idText(r.ID.Raw()) != id:
		return nil, c.unusable(errors.New("it answers another request"))
	}
	return r.Result, refusalOf(r.Error)
}

// refused returns the error for a response with a status of 300 or above.
func (c *call) refused(resp *http.Response, id string, session bool) error {
	body := readRefusal(resp)
	var err error
	if r := responseIn(body); r != nil && r.Error != nil && !uninitialized(resp, r, id, session) {
		err = refusalOf(r.Error)
	}
	if err == nil {
		status := statusOf(resp, body)
		switch err = status; {
		case status.misdirected():
			return &staleError{status}
		case awayStatus(resp):
			err = &awayError{status}
		}
	}
	if after := retryAfter(resp); after > 0 {
		return &waitError{err, after}
	}
	return err
}

// codeServer is the code that servers use for errors without a JSON-RPC code.
const codeServer = -32000

// uninitialized reports whether a 400 concerns the session rather than the call: its id does not match a request of
// ours ("" in C#, "server-error" in Python), or it says that the server was not initialized.
func uninitialized(resp *http.Response, r *jsonrpc.Response, id string, session bool) bool {
	if resp.StatusCode != http.StatusBadRequest {
		return false
	}
	var rpc *jsonrpc.Error
	return idText(r.ID.Raw()) != id || session && errors.As(r.Error, &rpc) && rpc.Code == codeServer
}

// refusalOf converts a JSON-RPC error object received over HTTP to the client's error. It returns nil for nil.
func refusalOf(err error) error {
	var rpc *jsonrpc.Error
	if !errors.As(err, &rpc) {
		return err
	}
	refusal := errorOf(rpc.Code, rpc.Message, rpc.Data)
	switch {
	case shuttingDown(refusal):
		return &awayError{refusal} // another replica may be up
	case staleCodes[rpc.Code]:
		return &staleError{refusal}
	}
	return refusal
}

// A contentError reports that a response is not JSON-RPC.
type contentError struct{ said string }

func (e *contentError) Error() string { return e.said }

// contentOf returns an error if the response's status or content type shows that it is not JSON-RPC, nil otherwise.
func contentOf(resp *http.Response, body []byte) error {
	status, kind := statusOf(resp, body), resp.Header.Get("Content-Type")
	switch media := mediaType(resp); {
	case resp.StatusCode >= 300 && media == typeJSON && responseIn(body) != nil:
		return nil
	case media == "text/html":
		return &contentError{"the answer is an HTML page, not JSON-RPC: " + status.said()}
	case resp.StatusCode >= 300:
		return &contentError{status.said()}
	case media == typeJSON || media == typeSSE || len(body) == 0:
		return nil
	}
	return &contentError{fmt.Sprintf("the answer is %q, not JSON-RPC: %s", clipped([]byte(kind)), status.said())}
}

// responseIn returns the JSON-RPC response in body, or nil if body is something different.
func responseIn(body []byte) *jsonrpc.Response {
	m, err := decodeMessage(body)
	if err != nil {
		return nil
	}
	r, _ := m.(*jsonrpc.Response)
	return r
}

func (c *call) unusable(err error) error { return &AnswerError{Method: c.method, Err: err} }

func notMessage(err error, data []byte) error {
	return fmt.Errorf("no JSON-RPC message: %w: %s", err, clipped(data))
}

// answered keeps the result of an events call and returns a response with an empty result in its place, so that a large
// result is parsed only once.
func (c *call) answered(result json.RawMessage, id string) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result = result
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
}

// readAnswer reads a response body of at most limit bytes.
func readAnswer(resp *http.Response, limit int64) ([]byte, error) {
	if resp.ContentLength > limit {
		return nil, errTooLarge("the body", limit)
	}
	return readBounded(resp.Body, limit)
}

// readRefusal reads the start of an error response's body, for the error's text.
func readRefusal(resp *http.Response) []byte {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil {
		return nil
	}
	return body
}

func (c *call) dated(resp *http.Response) {
	at, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.date = at
}

// now returns the server's time at its response. It returns the local time if the two differ by no more than
// clockNoise, or if the server sent no Date.
func (c *call) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	ours := time.Now()
	if c.date.IsZero() || c.date.Sub(ours).Abs() <= clockNoise {
		return ours
	}
	return c.date
}

// clockNoise is the difference to the local clock that a Date header, which has whole seconds, may show without
// meaning.
const clockNoise = 2 * time.Second
