package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// direct answers events/list and events/poll of the stateless revision without the SDK's handler,
// which builds a session for each request. It answers only what the SDK would accept; a request
// that fails one of its checks goes to the SDK, so that both ways refuse with the same words.
type direct struct {
	es      *port.Port
	sdk     http.Handler
	callers *callers
	facts   atomic.Pointer[serverFacts]
}

// serverFacts are what the SDK knows of its server and shows to clients only.
type serverFacts struct {
	versions []string
	meta     json.RawMessage // what it adds to the _meta of every result, an object
}

func newDirect(es *port.Port, sdk http.Handler, callers *callers) *direct {
	return &direct{es: es, sdk: sdk, callers: callers}
}

// serve answers an acceptable request, or reports false and has written nothing.
func (d *direct) serve(w http.ResponseWriter, r *http.Request, env envelope) bool {
	if env.method != wire.MethodList && env.method != wire.MethodPoll {
		return false
	}
	if !env.isCall() || env.result != nil || env.error != nil {
		return false
	}
	who, ok := d.callers.look(env.meta)
	if !ok || who.version != r.Header.Get(headerVersion) {
		return false
	}
	facts := d.facts.Load()
	if facts == nil {
		if facts = d.learn(r); facts == nil {
			return false
		}
		d.facts.Store(facts)
	}
	if !slices.Contains(facts.versions, who.version) {
		return false
	}
	ctx := r.Context()
	principal, expires := d.es.Authenticate(ctx, &mcp.RequestExtra{TokenInfo: auth.TokenInfoFromContext(ctx), Header: r.Header})
	result, err := d.es.Call(ctx, port.Request{
		Method:            env.method,
		Params:            env.params,
		ID:                env.id,
		Principal:         principal,
		Stateless:         true,
		DeclaresExtension: who.declares,
		CanStream:         canFlush(w),
		Expires:           expires,
	})
	if ctx.Err() != nil {
		return true // nobody is left to answer
	}
	status := http.StatusOK
	msg := make([]byte, 0, len(result)+len(env.id)+len(facts.meta)+64)
	if err != nil {
		jerr := wireError(err)
		status = statusOf(jerr.Code)
		value, _ := jsonv2.Marshal(jerr) // a number, a string and checked JSON: it cannot fail
		msg = appendResponse(msg, env.id, "error", value)
	} else {
		msg = appendResponse(msg, env.id, "result", withMeta(result, facts.meta))
	}
	header := w.Header()
	header.Set("Content-Type", contentTypeJSON)
	header.Set("Cache-Control", "no-cache, no-transform")
	header.Set("Content-Length", strconv.Itoa(len(msg)))
	w.WriteHeader(status)
	_, _ = w.Write(msg)
	return true
}

// acceptable makes the SDK's checks of everything but the body.
func acceptable(r *http.Request, opts *mcp.StreamableHTTPOptions) bool {
	if !opts.DisableLocalhostProtection {
		if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && addr != nil &&
			isLoopback(addr.String()) && !isLoopback(r.Host) {
			return false
		}
	}
	//lint:ignore SA1019 honoured here for as long as the SDK honours it
	if opts.CrossOriginProtection != nil && opts.CrossOriginProtection.Check(r) != nil {
		return false
	}
	return mediaType(r.Header.Get("Content-Type")) == contentTypeJSON &&
		accepts(r.Header["Accept"])
}

// learn asks the SDK, with the credentials of the request at hand, what it tells of its server.
func (d *direct) learn(r *http.Request) *serverFacts {
	const id = `"` + methodDiscover + `"`
	version := r.Header.Get(headerVersion)
	discover := withBody(r, []byte(`{"jsonrpc":"2.0","id":`+id+`,"method":"`+methodDiscover+`","params":{"_meta":{"`+
		mcp.MetaKeyProtocolVersion+`":`+strconv.Quote(version)+`,"`+mcp.MetaKeyClientCapabilities+`":{}}}}`))
	discover.Header.Set(headerMethod, methodDiscover)
	rec := newRecorder()
	d.sdk.ServeHTTP(rec, discover)
	env, ok := parseEnvelope(rec.message())
	if !ok || env.result == nil {
		return nil
	}
	var facts serverFacts
	if json.Unmarshal(member(env.result, "supportedVersions"), &facts.versions) != nil {
		return nil
	}
	info := member(member(env.result, "_meta"), mcp.MetaKeyServerInfo)
	facts.meta = json.RawMessage(`{}`)
	if info != nil {
		facts.meta = json.RawMessage(`{"` + mcp.MetaKeyServerInfo + `":` + string(info) + `}`)
	}
	return &facts
}

// withMeta adds the members of meta to the _meta of a result, the result's own first and winning,
// as the SDK does with the results of handlers.
func withMeta(result, meta json.RawMessage) json.RawMessage {
	if len(meta) <= len(`{}`) {
		return result
	}
	var own json.RawMessage
	if bytes.Contains(result, []byte(`"_meta"`)) {
		own = member(result, "_meta")
	}
	if own != nil {
		merged := map[string]json.RawMessage{}
		if json.Unmarshal(meta, &merged) != nil || json.Unmarshal(own, &merged) != nil {
			return result
		}
		var all map[string]json.RawMessage
		if json.Unmarshal(result, &all) != nil {
			return result
		}
		all["_meta"], _ = jsonv2.Marshal(merged, jsonv2.Deterministic(true))
		out, _ := jsonv2.Marshal(all, jsonv2.Deterministic(true))
		return out
	}
	out := make(json.RawMessage, 0, len(result)+len(meta)+len(`,"_meta":`))
	out = append(out, result[:len(result)-1]...)
	if len(result) > len(`{}`) {
		out = append(out, ',')
	}
	out = append(out, `"_meta":`...)
	out = append(out, meta...)
	return append(out, '}')
}

// wireError returns err as it goes on the wire; what is no JSON-RPC error has no text there (ERR-4).
func wireError(err error) *jsonrpc.Error {
	var jerr *jsonrpc.Error
	if errors.As(err, &jerr) {
		return jerr
	}
	return &jsonrpc.Error{Code: wire.Sketch.Code(wire.Internal), Message: wire.Internal.String()}
}

// statusOf returns the HTTP status that the SDK gives an error code in the stateless revision (ERR-3).
func statusOf(code int64) int {
	switch code {
	case jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound
	case jsonrpc.CodeInvalidParams, mcp.CodeUnsupportedProtocolVersion, mcp.CodeMissingRequiredClientCapabilities:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// mediaType returns a media type without its parameters, or "" for what is none.
func mediaType(value string) string {
	if value == contentTypeJSON || value == contentTypeEvents {
		return value
	}
	t, _, err := mime.ParseMediaType(value)
	if err != nil {
		return ""
	}
	return t
}

// accepts reports whether a client takes both forms of an answer, which the SDK demands of it.
func accepts(values []string) bool {
	var asJSON, asEvents bool
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			base, _, _ := strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(base)) {
			case contentTypeJSON, "application/*":
				asJSON = true
			case contentTypeEvents, "text/*":
				asEvents = true
			case "*/*":
				asJSON, asEvents = true, true
			}
		}
	}
	return asJSON && asEvents
}

// isLoopback reports whether an address or a Host header names this machine.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = strings.Trim(addr, "[]")
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
