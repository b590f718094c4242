package ingress

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
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
	if r.Method != http.MethodPost {
		return &Refusal{http.StatusMethodNotAllowed, "the method is not POST"}
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" && !(strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")) {
		return &Refusal{http.StatusUnsupportedMediaType, "the media type is not application/json"}
	}
	_, err = isGzip(r.Header)
	return err
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

func tooLarge(limit int64) *Refusal {
	return &Refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", limit)}
}
