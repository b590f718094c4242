package transport

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A listenCall is a subscriptions/listen request on a message-based connection that asked for
// eventsListChanged (D8, LIST-5); listen.go says how such a request is served. Its fields are
// guarded by conn.mu.
type listenCall struct {
	id           json.RawMessage
	wish         wish
	close        func() // ends what adapters know of it; nil before that
	acknowledged bool
	others       bool              // the SDK itself has kinds to notify about
	held         *jsonrpc.Response // the SDK's answer, withheld
	owed         bool              // list_changed came before the acknowledgement
	announcing   bool              // list_changed is on its way
}

func (c *conn) acceptListen(req *jsonrpc.Request) {
	asked := wishes(c.es, req.Params)
	raw, batched := c.rawID(req.ID)
	if asked.none() || batched {
		c.expectReply(req.ID, nil)
		return
	}
	c.mu.Lock()
	c.listens[req.ID] = &listenCall{id: raw, wish: asked}
	c.mu.Unlock()
}

// notify returns a notification of the SDK's as the client gets it. When it acknowledges a listen
// request, acknowledged is to be called from within the outbox, right before it is written: what is
// queued from then on follows it, and a client that has it misses nothing.
func (c *conn) notify(m *jsonrpc.Request) (_ *jsonrpc.Request, acknowledged func()) {
	if m.IsCall() {
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
	if m.Method != methodAcknowledged {
		return &jsonrpc.Request{Method: m.Method, Params: relabel(m.Params, l.id)}, nil
	}
	params, others := acknowledge(m.Params, l.id, l.wish)
	var principal string
	var expires time.Time
	if len(l.wish.keys) > 0 { // asked here, since the author's hook may take its time
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

// respondListen withholds the answer that the SDK gives at once to a request whose other kinds are
// none. c.mu is held.
func (c *conn) respondListen(l *listenCall, m *jsonrpc.Response) *jsonrpc.Response {
	if m.Error == nil && l.acknowledged && !l.others && !c.ending {
		l.held = m
		return nil
	}
	c.dropListen(m.ID)
	if m.Error != nil {
		return m
	}
	return &jsonrpc.Response{ID: m.ID, Result: relabel(m.Result, l.id)}
}

// endListens answers the open listen requests. c.mu is held.
func (c *conn) endListens() {
	for id, l := range c.listens {
		if !l.acknowledged {
			continue
		}
		resp := &jsonrpc.Response{ID: id, Result: finalListen(l.id)}
		if l.held != nil {
			resp.Result = relabel(l.held.Result, l.id)
		} else {
			c.muted[id]++
		}
		c.dropListen(id)
		c.out.post(func() error { return c.Connection.Write(context.Background(), resp) })
	}
}

// announce tells the client that the list of event types has changed: a legacy session once it is
// ready, a stateless client on each listen request that asked. It never blocks.
func (c *conn) announce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ready && !c.announcing {
		c.announcing = true
		c.out.post(func() error {
			c.mu.Lock()
			c.announcing = false
			c.mu.Unlock()
			return c.write(wire.NotificationListChanged, listChangedParams(nil))
		})
	}
	for _, l := range c.listens {
		c.announceTo(l)
	}
}

// announceTo queues list_changed for a listen request; several that come before it is written are
// one. c.mu is held.
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
		return c.write(wire.NotificationListChanged, listChangedParams(l.id))
	})
}

// write writes a notification from within the outbox.
func (c *conn) write(method string, params json.RawMessage) error {
	return c.Connection.Write(context.Background(), &jsonrpc.Request{Method: method, Params: params})
}
