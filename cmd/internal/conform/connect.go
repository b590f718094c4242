package conform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

const (
	methodDiscover   = "server/discover"
	methodInitialize = "initialize"
)

// Unreachable is the error of Run if it does not find an MCP server with events.
type Unreachable struct{ Err error }

// Error describes what Run found instead.
func (e *Unreachable) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *Unreachable) Unwrap() error { return e.Err }

// connect performs the handshake with server/discover or, if the server does not support that, with initialize.
func (r *run) connect(ctx context.Context) error {
	t := r.o.Target
	if t.URL != "" {
		r.link = newHTTPLink(t.URL, t.Token, r.o.OtherToken, r.o.dial, r.observe)
	} else {
		p, err := r.start()
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
		r.ignoreEarlier()
	}
	if r.o.Revision != wire.RevisionStateless && mayBeLegacy(err) {
		if err = r.initialize(ctx); err == nil {
			return nil
		}
	}
	return &Unreachable{r.explain(ctx, t, err)}
}

// initialize performs the handshake of the legacy revision.
func (r *run) initialize(ctx context.Context) error {
	err := r.handshake(ctx, wire.RevisionLegacy, methodInitialize,
		map[string]any{"protocolVersion": wire.RevisionLegacy, "capabilities": extensionCapabilities, "clientInfo": clientInfo})
	if err == nil {
		err = r.link.notify(ctx, "notifications/initialized", nil)
	}
	return err
}

// mayBeLegacy reports whether a server that rejected server/discover may implement the legacy revision.
func mayBeLegacy(err error) bool {
	page, ok := errors.AsType[*notMCPError](err)
	return err == nil || !ok || page.status >= 400 && page.status != 401 && page.status != 403
}

// handshake requests the server's capabilities.
func (r *run) handshake(ctx context.Context, revision, method string, params map[string]any) error {
	most := r.o.pace.handshake
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("no answer to %s within %v", method, most))
	defer cancel()
	r.revision = revision
	r.link.settle(revision, "")
	x, err := r.send(ctx, request{method: method, params: params})
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

// explain returns an error that explains to the user why the handshake failed.
func (r *run) explain(ctx context.Context, t peer.Target, err error) error {
	page, ok := errors.AsType[*notMCPError](err)
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
