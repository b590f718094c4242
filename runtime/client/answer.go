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

// readResult reads an HTTP response that is not a stream and returns its result or error. The session argument is true
// if the request had a session ID.
func (c *call) readResult(resp *http.Response, id string, session bool, limit int64) (json.RawMessage, error) {
	if resp.StatusCode >= 300 {
		return nil, c.responseError(resp, id, session)
	}
	if kind := mediaType(resp); kind != typeJSON {
		return nil, c.unusable(fmt.Errorf("the content type is %q, not %s or %s: %w",
			clip([]byte(resp.Header.Get("Content-Type"))), typeJSON, typeSSE, newStatusError(resp, readRefusal(resp))))
	}
	body, err := readAnswer(resp, limit)
	switch {
	case errors.Is(err, ErrTooLarge):
		return nil, c.unusable(err)
	case err != nil:
		return nil, wrapConnectionError("the answer broke off", err)
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
	return r.Result, convertRefusal(r.Error)
}

// responseError returns the error for a response with a status code of 300 or higher.
func (c *call) responseError(resp *http.Response, id string, session bool) error {
	body := readRefusal(resp)
	var err error
	if r := parseResponse(body); r != nil && r.Error != nil && !isSessionError(resp, r, id, session) {
		err = convertRefusal(r.Error)
	}
	if err == nil {
		status := newStatusError(resp, body)
		switch err = status; {
		case status.mayBeStale():
			return &staleError{status}
		case isUnreachableStatus(resp):
			err = &unreachableError{status}
		}
	}
	if after := retryAfter(resp); after > 0 {
		return &waitError{err, after}
	}
	return err
}

// codeServerError is the code that servers use for errors that have no specific JSON-RPC code.
const codeServerError = -32000

// isSessionError reports whether a 400 response rejects the session rather than the call. The id of such a response
// differs from the request's ("" in C#, "server-error" in Python), or its error states that the server was not
// initialized.
func isSessionError(resp *http.Response, r *jsonrpc.Response, id string, session bool) bool {
	if resp.StatusCode != http.StatusBadRequest {
		return false
	}
	var rpc *jsonrpc.Error
	return idText(r.ID.Raw()) != id || session && errors.As(r.Error, &rpc) && rpc.Code == codeServerError
}

// convertRefusal converts a JSON-RPC error object received over HTTP to an error of this package. It returns nil for
// nil.
func convertRefusal(err error) error {
	var rpc *jsonrpc.Error
	if !errors.As(err, &rpc) {
		return err
	}
	refusal := convertError(rpc.Code, rpc.Message, rpc.Data)
	switch {
	case isShuttingDown(refusal):
		return &unreachableError{refusal} // another replica may be up
	case staleCodes[rpc.Code]:
		return &staleError{refusal}
	}
	return refusal
}

// A contentError reports that a response is not JSON-RPC.
type contentError struct{ said string }

func (e *contentError) Error() string { return e.said }

// checkContent returns an error if the response's status or content type shows that it is not JSON-RPC.
func checkContent(resp *http.Response, body []byte) error {
	status, kind := newStatusError(resp, body), resp.Header.Get("Content-Type")
	switch media := mediaType(resp); {
	case resp.StatusCode >= 300 && media == typeJSON && parseResponse(body) != nil:
		return nil
	case media == "text/html":
		return &contentError{"the answer is an HTML page, not JSON-RPC: " + status.said()}
	case resp.StatusCode >= 300:
		return &contentError{status.said()}
	case media == typeJSON || media == typeSSE || len(body) == 0:
		return nil
	}
	return &contentError{fmt.Sprintf("the answer is %q, not JSON-RPC: %s", clip([]byte(kind)), status.said())}
}

// parseResponse returns the JSON-RPC response in body, or nil if body does not contain one.
func parseResponse(body []byte) *jsonrpc.Response {
	m, err := decodeMessage(body)
	if err != nil {
		return nil
	}
	r, _ := m.(*jsonrpc.Response)
	return r
}

func (c *call) unusable(err error) error { return &AnswerError{Method: c.method, Err: err} }

func notMessage(err error, data []byte) error {
	return fmt.Errorf("no JSON-RPC message: %w: %s", err, clip(data))
}

// storeResult stores the result of an events call and returns a response with an empty result. The SDK parses that
// response, so a large result is parsed only once.
func (c *call) storeResult(result json.RawMessage, id string) []byte {
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

// readRefusal reads the start of an error response's body, which becomes part of the error text.
func readRefusal(resp *http.Response) []byte {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil {
		return nil
	}
	return body
}

func (c *call) recordDate(resp *http.Response) {
	at, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.date = at
}

// serverTime returns the time of the response by the server's clock. It returns the local time if the clocks differ by
// at most clockTolerance, or if the response has no Date header.
func (c *call) serverTime() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	ours := time.Now()
	if c.date.IsZero() || c.date.Sub(ours).Abs() <= clockTolerance {
		return ours
	}
	return c.date
}

// clockTolerance is the maximum clock difference that serverTime ignores. It exceeds the one-second resolution of the
// Date header.
const clockTolerance = 2 * time.Second
