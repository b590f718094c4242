package ingress

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/inbound"
)

// defaultMaxBody is the maximum size of a body if the service does not specify a limit.
const defaultMaxBody = 1 << 20

// A limitedBody is the body of a request with limits on size and time.
type limitedBody struct {
	io.ReadCloser
	w     http.ResponseWriter
	limit int64
}

func newLimitedBody(w http.ResponseWriter, r *http.Request, limit int64) *limitedBody {
	return &limitedBody{http.MaxBytesReader(w, r.Body, limit), w, limit}
}

// Read reads from the body. At the end of the body, it removes the deadline.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		inbound.Lift(b.w)
	}
	return n, err
}

// CheckJSON returns a [*Refusal] unless r is a POST request with a JSON body. The status is 405 for any other method.
// It is 415 for a media type other than application/json or application/*+json, or a content encoding other than gzip
// or identity.
func CheckJSON(r *http.Request) error {
	if err := checkPost(r); err != nil {
		return err
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" && !(strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")) {
		return &Refusal{http.StatusUnsupportedMediaType, "the media type is not application/json"}
	}
	return nil
}

// checkPost returns a [*Refusal] for a method other than POST or an unsupported content encoding.
func checkPost(r *http.Request) error {
	if r.Method != http.MethodPost {
		return &Refusal{http.StatusMethodNotAllowed, "the method is not POST"}
	}
	_, err := isGzip(r.Header)
	return err
}

// isForm reports whether the body of r is a form.
func isForm(r *http.Request) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && media == "application/x-www-form-urlencoded"
}

// formPayload returns the JSON in a form, which is the value of its field payload.
func formPayload(body []byte) ([]byte, error) {
	form, err := url.ParseQuery(string(body))
	if err != nil || len(form["payload"]) != 1 {
		return nil, &Refusal{http.StatusUnsupportedMediaType, "the form does not have exactly one field payload"}
	}
	return []byte(form["payload"][0]), nil
}

// isGzip reports whether the Content-Encoding is gzip.
func isGzip(h http.Header) (bool, error) {
	switch strings.ToLower(strings.Join(h.Values("Content-Encoding"), ",")) {
	case "", "identity":
		return false, nil
	case "gzip", "x-gzip":
		return true, nil
	}
	return false, &Refusal{http.StatusUnsupportedMediaType, "the content encoding is neither gzip nor identity"}
}

// Unpack returns the body, decompressed if the Content-Encoding of r is gzip. The decompressed content has the same
// limit as the body ([Options.MaxBody], or 1 MiB if r does not come from a [Handler]). Services sign the compressed
// bytes.
func Unpack(r *http.Request, body []byte) ([]byte, error) {
	gzipped, err := isGzip(r.Header)
	if err != nil || !gzipped {
		return body, err
	}
	limit := int64(defaultMaxBody)
	if b, ok := r.Body.(*limitedBody); ok {
		limit = b.limit
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, errNotGzip
	}
	content, err := io.ReadAll(http.MaxBytesReader(nil, unpacked, limit))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, err
	}
	if err != nil {
		return nil, errNotGzip
	}
	return content, nil
}

var errNotGzip = errors.New("the body is not gzip, as Content-Encoding says")

// refusalOf converts an error from [Service.Receive] to a Refusal with a status.
func refusalOf(err error) *Refusal {
	refused, ok := errors.AsType[*Refusal](err)
	large, isLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case ok && (refused.Status < 400 || refused.Status > 599):
		return &Refusal{http.StatusInternalServerError, fmt.Sprintf("Refusal.Status is %d, not 400 to 599: %s", refused.Status, refused.Reason)}
	case ok:
		return refused
	case isLarge:
		return tooLarge(large.Limit)
	case errors.Is(err, ErrHeaders), errors.Is(err, ErrStale), errors.Is(err, ErrSignature):
		return &Refusal{http.StatusUnauthorized, err.Error()}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Refusal{http.StatusRequestTimeout, "the body came too slowly"}
	}
	return &Refusal{http.StatusBadRequest, err.Error()}
}

// advice contains the text of the response for each status. It is for the person who set up the sender. It is the same
// for all reasons, so it reveals nothing about the request or the receiver.
var advice = map[int]string{
	http.StatusBadRequest:            "the body is not a delivery of this service: see the reason in the log of the receiver",
	http.StatusUnauthorized:          "the request is not verified: set the same secret at the sender and at the receiver, and see the reason in the log of the receiver",
	http.StatusMethodNotAllowed:      "the method is not supported: send a POST request",
	http.StatusRequestTimeout:        "the body came too slowly: send it again",
	http.StatusRequestEntityTooLarge: "the body is too large: send less, or raise MaxBody of the receiver",
	http.StatusUnsupportedMediaType:  "the content is not supported: set the content type to application/json at the sender, and compress with gzip or not at all",
	http.StatusUnprocessableEntity:   "the payload does not fit the event type: see the fields in the log of the receiver",
	http.StatusServiceUnavailable:    "the delivery could not be stored now: send it again later",
}

// writeFailure writes a response with a status of 400 or more and its advice.
func writeFailure(w http.ResponseWriter, status int) {
	http.Error(w, cmp.Or(advice[status], "the delivery was refused: see the reason in the log of the receiver"), status)
}

func tooLarge(limit int64) *Refusal {
	return &Refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", limit)}
}
