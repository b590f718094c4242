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

// keepDocument is how long servers may keep the document, in the words of HTTP.
const keepDocument = "max-age=3600"

// WellKnown is a handler for [PathReceivers] on the receiver's origin: a document by which every
// path below the receiver's prefix consents to be called, so that servers need not ask each
// endpoint by a challenge. Base is the path that stands before the prefix in callback URLs, "" for
// none, such as the one that a proxy in front takes away; an error says that it is no plain path.
// See VER-1.
//
// Without the document a server learns only from an open endpoint that it may call. With it, whoever
// may subscribe at that server can have requests sent to the prefix, which are answered 404.
func (r *Receiver) WellKnown(base string) (http.Handler, error) {
	prefix := base + r.o.Prefix
	// A server compares with the path as it normalizes it, and distrusts what can be read in two ways.
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
