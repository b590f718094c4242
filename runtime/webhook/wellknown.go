package webhook

import (
	"errors"
	"net/http"
	"path"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcpe-gen/mcpe-gen/internal/inbound"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// cacheControl is the Cache-Control header of the document.
const cacheControl = "max-age=3600"

// WellKnown returns a handler for [PathReceivers] on the receiver's origin. It serves a document that declares consent
// to deliveries for all paths below the receiver's prefix, so servers need not challenge each endpoint. The base is the
// path before the prefix in callback URLs, such as a path that a proxy removes. It can be "". WellKnown returns an
// error if base is not a plain path. See VER-1.
//
// Without the document, only an open endpoint can consent. With it, any subscriber of a server can cause that server to
// send requests to paths below the prefix. The receiver responds to them with 404 unless an endpoint is open at that
// path.
func (r *Receiver) WellKnown(base string) (http.Handler, error) {
	prefix := base + r.o.Prefix
	// Servers compare normalized paths and reject ambiguous ones.
	if !strings.HasPrefix(prefix, "/") || path.Clean(prefix)+"/" != prefix || strings.ContainsAny(prefix, "%?#\\") {
		return nil, errors.New("webhook: the path before the receiver's prefix must be plain, begin with a slash and not end in one")
	}
	document, err := jsonv2.Marshal(wire.Receivers{Receivers: []string{prefix}})
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		inbound.Deadline(w, req, bodyTimeout)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", cacheControl)
		_, _ = w.Write(document)
	}), nil
}
