package transport

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

var _ port.Front = (*handler)(nil)

// Reserve implements [port.Front].
func (h *handler) Reserve(w http.ResponseWriter, r *http.Request) (leave func(), ok bool) {
	principal, _ := h.authenticate(r)
	who := accountKeyOf(principal, r)
	if !h.open.reserve(w, who, "requests") {
		return nil, false
	}
	return func() { h.open.release(who) }, true
}

// ServeGuest implements [port.Front].
func (h *handler) ServeGuest(w http.ResponseWriter, r *http.Request, g port.Guest) {
	w = &unbufferedWriter{ResponseWriter: w}
	if !h.gate.admit(w, r) {
		return
	}
	r.Header.Del(port.ReplyHeader)
	if r.Header.Get(headerVersion) >= wire.RevisionStateless {
		h.servePOST(w, r, &g)
	} else {
		h.serveLegacyPOST(w, r, &g)
	}
}

// CancelGuest implements [port.Front].
func (h *handler) CancelGuest(r *http.Request, session string, id json.RawMessage) {
	if isID(id) {
		principal, _ := h.authenticate(r)
		h.calls.cancel(newCallKey(principal, session, id))
	}
}

// ServeListen implements [port.Front].
func (h *handler) ServeListen(w http.ResponseWriter, r *http.Request, others http.Handler) {
	if p, ok := h.readPOST(w, r, others, true); ok {
		h.serveListen(&unbufferedWriter{ResponseWriter: w}, r, p, others)
	}
}

// ServeSessionGET implements [port.Front].
func (h *handler) ServeSessionGET(w http.ResponseWriter, r *http.Request, others http.Handler) {
	a := h.newAnnouncer(w, listChangedNotification(nil))
	ctx, stop := h.registerListener(a, r, nil)
	defer stop()
	others.ServeHTTP(a, r.WithContext(ctx))
}

// ToolNames implements [port.Front].
func (h *handler) ToolNames() (names []string) {
	ctx := context.Background()
	ss, endSession, err := newTempSession(ctx, h.srv, nil, nil)
	if err != nil {
		return nil
	}
	defer endSession()
	for params := new(mcp.ListToolsParams); ; {
		res, err := port.BareHandler()(ctx, methodToolsList, &mcp.ServerRequest[*mcp.ListToolsParams]{Session: ss, Params: params})
		page, ok := res.(*mcp.ListToolsResult)
		if err != nil || !ok {
			return names
		}
		for _, t := range page.Tools {
			names = append(names, t.Name)
		}
		if params.Cursor = page.NextCursor; params.Cursor == "" {
			return names
		}
	}
}
