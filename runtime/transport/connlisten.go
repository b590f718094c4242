package transport

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A listenCall is a subscriptions/listen request for eventsListChanged on a message-based connection (D8, LIST-5). See
// serveListen for the details. The fields are guarded by conn.mu.
type listenCall struct {
	id           json.RawMessage
	wish         listenRequest
	close        func() // ends the adapters' use of it; nil until they know it
	acknowledged bool
	others       bool              // the SDK has other notifications for this request
	held         *jsonrpc.Response // the SDK's response, withheld
	owed         bool              // list_changed came before the acknowledgement
	announcing   bool              // a list_changed is queued
}

func (c *conn) acceptListen(req *jsonrpc.Request) {
	asked := parseListenRequest(c.es, req.Params)
	if asked.isEmpty() {
		c.registerCall(req.ID, nil)
		return
	}
	c.mu.Lock()
	c.listens[req.ID] = &listenCall{id: encodeID(req.ID), wish: asked}
	c.mu.Unlock()
}

// rewriteNotification returns the notification to send to the client instead of m. If m acknowledges a listen request,
// the outbox must call acknowledged immediately before the write. Later notifications are queued after the
// acknowledgment, so the client misses none.
func (c *conn) rewriteNotification(m *jsonrpc.Request) (_ *jsonrpc.Request, acknowledged func()) {
	if m.Method != methodAcknowledged {
		return m, nil
	}
	c.mu.Lock()
	var l *listenCall
	if len(c.listens) > 0 {
		l = c.listens[sdkID(member(member(m.Params, "_meta"), wire.MetaSubscriptionID))]
	}
	c.mu.Unlock()
	if l == nil {
		return m, nil
	}
	params, others := extendAcknowledgment(m.Params, l.wish)
	var principal string
	var expires time.Time
	if len(l.wish.keys) > 0 { // asked here, not under the lock, since the author's hook may be slow
		principal, expires = c.es.Authenticate(c.ctx, &mcp.RequestExtra{})
	}
	return &jsonrpc.Request{Method: m.Method, Params: params}, func() {
		c.openListener(l, principal, expires)
		c.mu.Lock()
		defer c.mu.Unlock()
		l.acknowledged, l.others = true, others
		if l.owed {
			c.announceTo(l)
		}
		if c.ending {
			c.endListens()
		}
	}
}

// respondListen returns the response to a listen request, or nil to withhold it. The SDK responds immediately to a
// request whose notifications are all sent by this package. The caller must hold c.mu.
func (c *conn) respondListen(l *listenCall, m *jsonrpc.Response) *jsonrpc.Response {
	if m.Error == nil && l.acknowledged && !l.others && !c.ending {
		l.held = m
		return nil
	}
	c.dropListen(m.ID)
	return m
}

// endListens answers the open listen requests. The caller must hold c.mu.
func (c *conn) endListens() {
	for id, l := range c.listens {
		if !l.acknowledged {
			continue
		}
		resp := l.held
		if resp == nil {
			resp = &jsonrpc.Response{ID: id, Result: listenResult(l.id)}
			c.muted[id]++
		}
		c.dropListen(id)
		c.out.post(func() error { return c.Connection.Write(context.Background(), resp) })
	}
}

// announce queues list_changed for a ready legacy session, and for each listen request that includes list_changed. It
// never blocks.
func (c *conn) announce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ready && !c.announcing {
		c.announcing = true
		c.out.post(func() error {
			c.mu.Lock()
			c.announcing = false
			c.mu.Unlock()
			return c.writeNotification(wire.NotificationListChanged, listChangedParams(nil))
		})
	}
	for _, l := range c.listens {
		c.announceTo(l)
	}
}

// announceTo queues list_changed for a listen request unless one is already queued. The caller must hold c.mu.
func (c *conn) announceTo(l *listenCall) {
	if !l.wish.listChanged {
		return
	}
	if !l.acknowledged {
		l.owed = true
		return
	}
	if l.announcing {
		return
	}
	l.owed, l.announcing = false, true
	c.out.post(func() error {
		c.mu.Lock()
		l.announcing = false
		open := false
		for _, o := range c.listens {
			open = open || o == l
		}
		c.mu.Unlock()
		if !open {
			return nil
		}
		return c.writeNotification(wire.NotificationListChanged, listChangedParams(l.id))
	})
}

// writeNotification writes a notification. Only the outbox may call it.
func (c *conn) writeNotification(method string, params json.RawMessage) error {
	return c.Connection.Write(context.Background(), &jsonrpc.Request{Method: method, Params: params})
}
