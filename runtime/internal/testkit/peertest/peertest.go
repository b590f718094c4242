// Package peertest provides a peer that speaks JSON-RPC to a server over an in-memory transport, without anybody's client.
// It makes no compatibility promise.
package peertest

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// The protocol versions of the two eras.
const Legacy, Modern = "2025-11-25", "2026-07-28"

// A Peer is a connected peer.
type Peer struct {
	T       testing.TB
	Version string
	// HangUp closes the connection.
	HangUp func()
	Conn   mcp.Connection

	take    func(m jsonrpc.Message)
	mu      sync.Mutex
	last    int
	answers map[string]chan *jsonrpc.Response
}

// Dial connects a peer to a server. A legacy peer initializes with the capabilities, which are JSON. Take is called for
// each message from the server, in order; a response is passed to its request afterwards. The goroutines end after
// HangUp, and ran waits for them.
func Dial(t testing.TB, es *server.Server, ran *sync.WaitGroup, version, capabilities string, take func(m jsonrpc.Message)) *Peer {
	t.Helper()
	ct, st := mcp.NewInMemoryTransports()
	ctx, cancel := context.WithCancel(context.Background())
	ran.Go(func() { _ = transport.Run(ctx, es, st) })
	conn, err := ct.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	p := &Peer{T: t, Version: version, Conn: conn, take: take, answers: map[string]chan *jsonrpc.Response{}}
	ran.Go(p.read)
	p.HangUp = sync.OnceFunc(func() { conn.Close(); cancel() })
	if version == Legacy {
		p.RPC("initialize", `{"protocolVersion":"`+Legacy+`","capabilities":`+capabilities+`,"clientInfo":{"name":"c","version":"1"}}`)
		p.Send(&jsonrpc.Request{Method: "notifications/initialized", Params: json.RawMessage(`{}`)})
		p.RPC("ping", `{}`)
	}
	return p
}

func (p *Peer) read() {
	for {
		m, err := p.Conn.Read(context.Background())
		if err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			for _, c := range p.answers {
				close(c)
			}
			clear(p.answers)
			return
		}
		p.take(m)
		if res, ok := m.(*jsonrpc.Response); ok {
			id := fmt.Sprint(res.ID.Raw())
			p.mu.Lock()
			c := p.answers[id]
			delete(p.answers, id)
			p.mu.Unlock()
			if c != nil {
				c <- res
			}
		}
	}
}

// Send sends a message.
func (p *Peer) Send(m jsonrpc.Message) {
	if err := p.Conn.Write(context.Background(), m); err != nil {
		p.T.Errorf("writing: %v", err)
	}
}

// ModernMeta contains the members of the _meta of a modern peer.
const ModernMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}`

// Params adds to params the _meta of the peer's era, and the members meta.
func (p *Peer) Params(params, meta string) string {
	if p.Version == Modern {
		meta = strings.TrimSuffix(ModernMeta+","+meta, ",")
	}
	if meta == "" {
		return params
	}
	sep := ","
	if params == `{}` {
		sep = ""
	}
	return strings.TrimSuffix(params, "}") + sep + `"_meta":{` + meta + "}}"
}

// Start sends a request and returns its id and the channel for the response, which is closed if the connection ends.
func (p *Peer) Start(method, params string) (id int, answer chan *jsonrpc.Response) {
	p.mu.Lock()
	p.last++
	id = p.last
	answer = make(chan *jsonrpc.Response, 1)
	p.answers[strconv.Itoa(id)] = answer
	p.mu.Unlock()
	made, _ := jsonrpc.MakeID(float64(id))
	p.Send(&jsonrpc.Request{ID: made, Method: method, Params: json.RawMessage(params)})
	return id, answer
}

// RPC sends a request with the _meta of the peer's era and returns the response.
func (p *Peer) RPC(method, params string) *jsonrpc.Response {
	p.T.Helper()
	_, answer := p.Start(method, p.Params(params, ""))
	res, ok := <-answer
	if !ok {
		p.T.Fatalf("%s: connection ended", method)
	}
	return res
}

// A Result is the result of a tool.
type Result struct {
	IsError bool `json:"isError"`
	Content []struct {
		Type, Text string
	} `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
}

// Call calls a tool.
func (p *Peer) Call(tool, args string) *Result {
	p.T.Helper()
	res := p.RPC("tools/call", `{"name":"`+tool+`","arguments":`+args+`}`)
	if res.Error != nil {
		p.T.Fatalf("%s: %v", tool, res.Error)
	}
	r := &Result{}
	if err := json.Unmarshal(res.Result, r); err != nil {
		p.T.Fatal(err)
	}
	return r
}
