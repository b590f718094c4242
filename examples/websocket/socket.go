package main

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/coder/websocket"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// subprotocol is the WebSocket subprotocol that both sides specify in the handshake. MCP does not specify one.
const subprotocol = "mcp"

// maxMessage is the maximum size of a message in bytes.
const maxMessage = 4 << 20

// A socket is an mcp.Connection over a WebSocket. Each text message is a JSON-RPC message.
type socket struct {
	*websocket.Conn
	// caller is the authenticated sender of the handshake and of all requests on the connection. It is nil if the
	// sender is anonymous.
	caller *auth.TokenInfo
}

// Read reads the next message. It returns io.EOF if the peer has closed the connection.
func (s *socket) Read(ctx context.Context) (jsonrpc.Message, error) {
	kind, data, err := s.Conn.Read(ctx)
	if websocket.CloseStatus(err) != -1 {
		return nil, io.EOF
	}
	if err != nil {
		return nil, err
	}
	if kind != websocket.MessageText {
		return nil, errors.New("a message is not text")
	}
	message, err := jsonrpc.DecodeMessage(data)
	if r, ok := message.(*jsonrpc.Request); ok && s.caller != nil {
		r.Extra = &mcp.RequestExtra{TokenInfo: s.caller}
	}
	return message, err
}

// Write writes a message.
func (s *socket) Write(ctx context.Context, message jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return err
	}
	return s.Conn.Write(ctx, websocket.MessageText, data)
}

// Close sends a close frame to the peer and closes the connection.
func (s *socket) Close() error { return s.Conn.Close(websocket.StatusNormalClosure, "") }

// SessionID returns "", because the connection is the session.
func (s *socket) SessionID() string { return "" }

// An acceptedTransport is the transport of a connection that the server has accepted.
type acceptedTransport struct{ *socket }

func (a acceptedTransport) Connect(context.Context) (mcp.Connection, error) { return a.socket, nil }

// newHandler returns a handler that serves es on every WebSocket. Wrap it in authentication middleware such as
// auth.RequireBearerToken. Browsers cannot send the Authorization header, and Accept allows only pages from this host.
func newHandler(es *server.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{subprotocol}})
		if err != nil {
			return // Accept has written the response
		}
		defer conn.CloseNow()
		conn.SetReadLimit(maxMessage)
		_ = transport.Run(r.Context(), es, acceptedTransport{&socket{conn, auth.TokenInfoFromContext(r.Context())}})
	})
}

// A dialer is the client's transport. Each Connect performs a handshake.
type dialer struct {
	url    string
	header http.Header
}

func (d dialer) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, _, err := websocket.Dial(ctx, d.url, &websocket.DialOptions{HTTPHeader: d.header, Subprotocols: []string{subprotocol}})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(maxMessage)
	return &socket{Conn: conn}, nil
}
