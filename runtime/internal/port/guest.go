package port

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// A Guest describes a call that reaches the server through the handler of another MCP server, to which its session
// belongs.
type Guest struct {
	// Context is a child of the request's context. When it ends, a stream ends with its final result, and other calls are
	// canceled.
	Context context.Context
	// Session is the key of the session, which is unique for each caller, or "" for none.
	Session string
	// DeclaresExtension reports whether the session has declared the extension (CAP-3). It has no effect in the stateless
	// revision, in which each request declares it.
	DeclaresExtension bool
	// Until limits the grant of a webhook subscription. The zero time means no limit.
	Until time.Time
}

// A Front is the HTTP handler of package transport, as the handler of another MCP server uses it.
type Front interface {
	// Reserve counts a request until leave is called (CAP-7). If ok is false, the request has been answered.
	Reserve(w http.ResponseWriter, r *http.Request) (leave func(), ok bool)
	// ServeGuest answers a POST request. It refuses a call whose session and ID are those of an unanswered call. The
	// request must be reserved and must not contain a session ID.
	ServeGuest(w http.ResponseWriter, r *http.Request, g Guest)
	// CancelGuest cancels a call of the session. The call may also arrive shortly after the cancel (D14).
	CancelGuest(r *http.Request, session string, id json.RawMessage)
	// ServeListen passes subscriptions/listen of the stateless revision to others and adds this server's notifications to
	// the response.
	ServeListen(w http.ResponseWriter, r *http.Request, others http.Handler)
	// ServeSessionGET passes the standalone GET of a legacy session to others and inserts list_changed into the response.
	ServeSessionGET(w http.ResponseWriter, r *http.Request, others http.Handler)
	// ToolNames returns the names of all tools of the server.
	ToolNames() []string
}
