package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sse"
)

// serveListen serves subscriptions/listen of the stateless revision. The SDK supports a fixed set of notification
// kinds. If a request also has eventsListChanged or adapter keys, serveListen adds them to the acknowledgment and
// inserts their notifications between the SDK's (D8, LIST-5). The SDK immediately ends a request that has none of its
// kinds. In this case, serveListen keeps the response open. If others is not nil, it takes the place of the SDK.
func (h *handler) serveListen(w http.ResponseWriter, r *http.Request, p *postBody, others http.Handler) {
	env := p.env
	pass := func(w http.ResponseWriter, r *http.Request) {
		if others == nil {
			h.passToSDK(h.stateless, w, r, p)
			return
		}
		setBody(r, p.body)
		others.ServeHTTP(w, r)
	}
	if env.method != methodListen || !env.isCall() || !canFlush(w) {
		pass(w, r)
		return
	}
	asked := parseListenRequest(h.es, env.params)
	l := &listenWriter{announcer: h.newAnnouncer(w, nil), id: env.id, wish: asked}
	l.acks = true
	if asked.listChanged {
		l.frame = sse.Message(listChangedNotification(env.id))
	}
	if len(asked.keys) > 0 {
		closed := func() {}
		l.announcer.id = env.id
		var principal string
		principal, l.expires = h.authenticate(r)
		l.opened = func() { closed = openListeners(h.es, asked, principal, l.send) }
		defer func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			closed()
		}()
	}
	ctx, stop := h.registerListener(l.announcer, r, h.es.Closing())
	defer stop()
	pass(l, r.WithContext(ctx))
	if !l.acknowledged {
		return // refused, or the client disconnected
	}
	if !l.others && !asked.isEmpty() {
		<-ctx.Done()
	}
	if r.Context().Err() == nil && !l.ended {
		l.writeFinalResult()
	}
}

// requestsListChanged reports whether a listen request includes list_changed for event types.
func requestsListChanged(params json.RawMessage) bool {
	filter := member(params, "notifications")
	return string(member(filter, wire.ListenFilter)) == "true"
}

// sendsListChanged reports whether the server's capability includes list_changed.
func sendsListChanged(es *port.Port) bool {
	var capability struct {
		ListChanged bool `json:"listChanged"`
	}
	return json.Unmarshal(es.Capabilities(true), &capability) == nil && capability.ListChanged
}

// A listenWriter is a ResponseWriter between the SDK and the response to a listen request.
type listenWriter struct {
	*announcer
	id           json.RawMessage
	wish         listenRequest
	partial      []byte
	acknowledged bool
	others       bool   // the SDK has other notifications for this request
	result       []byte // the SDK's final result, as a message
	ended        bool   // the final result was written
}

// maxPartial is the maximum size of an event that is rewritten, in bytes.
const maxPartial = 4 << 20

var errPartial = errors.New("transport: an event of a listen response has more than 4 MiB")

// Write splits the SDK's output into SSE events and rewrites each of them. It does not change a response that is not an
// event stream, such as a refusal.
func (l *listenWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if mediaType(l.Header().Get("Content-Type")) != sse.ContentType {
		return l.ResponseWriter.Write(p)
	}
	l.partial = append(l.partial, p...)
	for {
		event, rest, ok := sse.Cut(l.partial)
		switch {
		case !ok && len(l.partial) > maxPartial:
			return 0, errPartial
		case !ok:
			return len(p), nil
		}
		out := l.rewriteEvent(event)
		l.partial = rest
		if out == nil {
			continue
		}
		if l.acknowledged {
			l.markStarted()
		}
		err := l.out.withDeadline(func() error {
			_, err := l.ResponseWriter.Write(out)
			return err
		})
		if err != nil {
			return 0, err
		}
	}
}

// rewriteEvent returns the event to write to the client, or nil to withhold it.
func (l *listenWriter) rewriteEvent(event []byte) []byte {
	data := sse.Data(event)
	env, ok := parseEnvelope(data)
	switch {
	case !ok:
		return event
	case env.method == methodAcknowledged:
		env.params, l.others = extendAcknowledgment(env.params, l.wish)
		data = notification(env.method, env.params)
		l.acknowledged = true
	case env.result != nil:
		l.result = bytes.Clone(data)
		if !l.others && !l.wish.isEmpty() {
			return nil
		}
		l.ended = true
		data = l.result
	}
	return sse.Replace(event, data)
}

// writeFinalResult writes the final result of a request that ends because the server shuts down.
func (l *listenWriter) writeFinalResult() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.result == nil {
		l.result = appendResponse(nil, l.id, "result", listenResult(l.id))
	}
	l.closed = true
	_ = l.out.writeMessage(l.result)
}

// listenResult returns the result of a listen request that the SDK has not answered.
func listenResult(id json.RawMessage) json.RawMessage {
	return json.RawMessage(`{"resultType":"` + wire.ResultComplete + `","_meta":{"` + wire.MetaSubscriptionID + `":` + string(id) + `}}`)
}

// extendAcknowledgment changes the params of an acknowledgment. It adds eventsListChanged to the filter and the
// adapters' keys to the _meta. It also reports whether the SDK acknowledged any kinds itself.
func extendAcknowledgment(ack json.RawMessage, w listenRequest) (params json.RawMessage, others bool) {
	members := map[string]json.RawMessage{}
	filter := map[string]json.RawMessage{}
	if json.Unmarshal(ack, &members) != nil || json.Unmarshal(members["notifications"], &filter) != nil {
		filter = map[string]json.RawMessage{}
	}
	others = len(filter) > 0
	if w.listChanged {
		filter[wire.ListenFilter] = json.RawMessage(`true`)
	}
	if len(w.keys) > 0 {
		meta := map[string]json.RawMessage{}
		_ = json.Unmarshal(members["_meta"], &meta)
		for _, key := range w.keys {
			meta[key] = json.RawMessage(`true`)
		}
		members["_meta"], _ = jsonv2.Marshal(meta, jsonv2.Deterministic(true))
	}
	members["notifications"], _ = jsonv2.Marshal(filter, jsonv2.Deterministic(true))
	params, _ = jsonv2.Marshal(members, jsonv2.Deterministic(true))
	return params, others
}

// notification returns a JSON-RPC notification.
func notification(method string, params json.RawMessage) []byte {
	name, _ := jsonv2.Marshal(method)
	return slices.Concat([]byte(`{"jsonrpc":"2.0","method":`), name, []byte(`,"params":`), params, []byte(`}`))
}
