package transport

import (
	"bytes"
	"cmp"
	"maps"
	"net/http"
)

// A recorder records the SDK's response to a request sent on behalf of a client.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newRecorder() *recorder { return &recorder{header: http.Header{}} }

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(p)
}

// isAccepted reports whether the SDK accepted the request.
func (r *recorder) isAccepted() bool { return r.status < http.StatusMultipleChoices }

// writeTo writes the recorded response to w.
func (r *recorder) writeTo(w http.ResponseWriter) {
	maps.Copy(w.Header(), r.header)
	w.WriteHeader(cmp.Or(r.status, http.StatusOK))
	_, _ = w.Write(r.body.Bytes())
}
