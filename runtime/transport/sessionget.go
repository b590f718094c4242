package transport

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// serveGET serves a GET for a stream of a legacy session. The stream is either the standalone stream with the session's
// notifications, or the resumed stream of a call. The SDK allows only one request per stream. Older requests for the
// stream are ended, because their connections may be dead but not closed.
func (h *handler) serveGET(w http.ResponseWriter, r *http.Request) {
	w = &aliasWriter{w} // a resumed stream may have the response to a call
	stream, _, _ := strings.Cut(r.Header.Get(headerLastEventID), "_")
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	r = r.WithContext(ctx)
	g := &getter{stream: stream, cancel: cancel, over: make(chan struct{})}
	defer close(g.over)
	defer h.sessions.enqueueGetter(r.Header.Get(headerSession), g)()
	for h.tryGET(w, r, stream == "") {
		older := h.sessions.olderGetters(r.Header.Get(headerSession), g)
		if len(older) == 0 || ctx.Err() != nil {
			http.Error(w, "another request has this stream", http.StatusConflict)
			return
		}
		for _, o := range older {
			o.cancel()
			select {
			case <-o.over:
			case <-ctx.Done():
			}
		}
	}
}

// tryGET serves a GET. If another request is already using the stream, it writes nothing and returns true.
func (h *handler) tryGET(w http.ResponseWriter, r *http.Request, standing bool) (taken bool) {
	c := &conflictWriter{ResponseWriter: w}
	var message []byte
	var closing <-chan struct{} // a call's stream ends with the call
	if standing {
		message, closing = listChangedNotification(nil), h.es.Closing()
	}
	a := h.newAnnouncer(c, message)
	if session := httpSession(r); session != "" && standing {
		var closed func()
		_, a.expires = h.authenticate(r)
		a.opened = func() { closed = h.es.OpenOutlet(port.Outlet{Session: session, Send: a.send}) }
		defer func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			if closed != nil {
				closed()
			}
		}()
	}
	ctx, stop := h.registerListener(a, r, closing)
	defer stop()
	h.legacy.ServeHTTP(a, r.WithContext(ctx))
	return c.conflict
}

// A conflictWriter suppresses a 409 response.
type conflictWriter struct {
	http.ResponseWriter
	conflict bool
}

// Unwrap gives response controllers access to flushing and deadlines.
func (w *conflictWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader writes every status except 409.
func (w *conflictWriter) WriteHeader(status int) {
	if w.conflict = status == http.StatusConflict; w.conflict {
		w.Header().Del("X-Content-Type-Options")
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *conflictWriter) Write(p []byte) (int, error) {
	if w.conflict {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// A getter is a GET that uses or waits for a stream of a session.
type getter struct {
	stream string // "" for the standalone stream
	cancel func()
	over   chan struct{}
}

// enqueueGetter appends g to the queue of the session with the given ID. The returned function removes it.
func (s *sessionTable) enqueueGetter(id string, g *getter) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess := s.byID[id]
	if sess == nil {
		return func() {} // the SDK refuses the request
	}
	sess.getters = append(sess.getters, g)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		sess.getters = slices.DeleteFunc(sess.getters, func(o *getter) bool { return o == g })
	}
}

// olderGetters returns the requests for the same stream that arrived before g.
func (s *sessionTable) olderGetters(id string, g *getter) []*getter {
	s.mu.Lock()
	defer s.mu.Unlock()
	var older []*getter
	if sess := s.byID[id]; sess != nil {
		for _, o := range sess.getters {
			if o == g {
				break
			}
			if o.stream == g.stream {
				older = append(older, o)
			}
		}
	}
	return older
}
