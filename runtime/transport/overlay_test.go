package transport_test

import (
	"net/http"

	"github.com/mcpe-gen/mcpe-gen/runtime/overlay"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

func init() {
	transport.NewOverlay = func(es *server.Server, next http.Handler, o transport.HandlerOptions) http.Handler {
		return overlay.NewHandler(es, next, overlay.Options{Handler: o})
	}
}
