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

// keepDocument is the Cache-Control header of the document.
const keepDocument = "max-age=3600"

// WellKnown returns a handler for [PathReceivers] on the receiver's origin. It serves a document with
// which every path below the receiver's prefix consents to receive deliveries, so that servers need
// not challenge each endpoint. Base is the path before the prefix in callback URLs, such as a path
// that a proxy strips; it may be "". WellKnown returns an error if base is not a plain path. See
// VER-1.
//
// Without the document, only an open endpoint can consent. With it, every subscriber of such a server
// can make the server send requests to paths below the prefix; unless an endpoint is open there, the
// receiver answers them with 404.
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
		w.Header().Set("Cache-Control", keepDocument)
		_, _ = w.Write(document)
	}), nil
}
