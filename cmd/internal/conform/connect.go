package conform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

const (
	methodDiscover   = "server/discover"
	methodInitialize = "initialize"
)

// An Unreachable reports that Run found no MCP server with events.
type Unreachable struct{ Err error }

// Error describes what was found instead.
func (e *Unreachable) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *Unreachable) Unwrap() error { return e.Err }

// connect performs the handshake: server/discover or, for a server that does not know it, initialize.
func (r *run) connect(ctx context.Context, stderr io.Writer) error {
	t := r.o.Target
	if t.URL != "" {
		r.link = newHTTPLink(t.URL, t.Token, r.o.OtherToken, r.o.dial, r.observe)
	} else {
		p, err := r.start(stderr)
		if err != nil {
			return &Unreachable{err}
		}
		r.link = newStdioLink(p, r.o.pace.call, r.observe)
	}
	var err error
	if r.o.Revision != wire.RevisionLegacy {
		if err = r.handshake(ctx, wire.RevisionStateless, methodDiscover, nil); err == nil {
			return nil
		}
		r.passOver()
	}
	if r.o.Revision != wire.RevisionStateless && worthInitialize(err) {
		if err = r.initialize(ctx); err == nil {
			return nil
		}
	}
	return &Unreachable{r.explain(ctx, t, err)}
}

// initialize performs the handshake of the older era.
func (r *run) initialize(ctx context.Context) error {
	err := r.handshake(ctx, wire.RevisionLegacy, methodInitialize,
		map[string]any{"protocolVersion": wire.RevisionLegacy, "capabilities": declared, "clientInfo": clientInfo})
	if err == nil {
		err = r.link.notify(ctx, "notifications/initialized", nil)
	}
	return err
}

// worthInitialize reports whether a server that refused server/discover may belong to the older era.
func worthInitialize(err error) bool {
	page, ok := errors.AsType[*notMCP](err)
	return err == nil || !ok || page.status >= 400 && page.status != 401 && page.status != 403
}

// handshake requests the server's capabilities.
func (r *run) handshake(ctx context.Context, revision, method string, params map[string]any) error {
	most := r.o.pace.handshake
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("no answer to %s within %v", method, most))
	defer cancel()
	r.revision = revision
	if method == methodDiscover {
		r.link.settle(revision, "")
	} else {
		r.link.settle("", "")
	}
	x, err := r.send(ctx, request{id: r.nextID(), method: method, params: params})
	if err != nil {
		return err
	}
	if x.answer.err != nil {
		return fmt.Errorf("it refuses %s with error %d", method, x.answer.err.Code)
	}
	var result struct {
		ProtocolVersion string                     `json:"protocolVersion"`
		Capabilities    map[string]json.RawMessage `json:"capabilities"`
	}
	if err := json.Unmarshal(x.answer.result, &result); err != nil || result.Capabilities == nil {
		return fmt.Errorf("its answer to %s has no capabilities", method)
	}
	if method == methodInitialize {
		if r.revision = result.ProtocolVersion; r.revision == "" {
			return fmt.Errorf("its answer to %s has no protocolVersion", method)
		}
		if r.revision >= wire.RevisionStateless {
			r.revision = wire.RevisionLegacy
		}
	}
	r.link.settle(r.revision, r.session)
	r.hello, r.capabilities = x, result.Capabilities
	return nil
}

// explain returns an error that says why there is nothing to judge.
func (r *run) explain(ctx context.Context, t peer.Target, err error) error {
	page, ok := errors.AsType[*notMCP](err)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case ok && (page.status == 401 || page.status == 403) && t.Token == "":
		return fmt.Errorf("%s refuses callers without a token (%d); give --token", t, page.status)
	case ok && page.status >= 300 && page.status < 400:
		return fmt.Errorf("%s redirects (%d); name the server's own URL", t, page.status)
	case ok:
		return t.Hinted(fmt.Errorf("%s is not an MCP server: %w", t, page))
	}
	return t.Hinted(fmt.Errorf("connecting to %s: %w", t, err))
}
