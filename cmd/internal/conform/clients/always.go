package clients

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// An alwaysCheck is a check of a requirement that applies to every scene.
type alwaysCheck struct {
	check
	// evaluate returns a violation if a request in the scene violates the requirement.
	evaluate func(s *stage) error
}

// alwaysChecks are evaluated over all scenes that were played.
var alwaysChecks = []alwaysCheck{
	{check{name: "request-rate", id: "CLI-3", title: "The client does not flood the server with requests"}, flooding},
	{check{name: "crash", id: "CLI-2", title: "The client does not crash"}, crashed},
	{check{name: "request-message", id: "CAP-6", title: "Requests are JSON-RPC messages"}, expectNoOddity("no message of JSON-RPC",
		"an object with jsonrpc 2.0, a method, params that are an object, and an id that is a number or a string")},
	{check{name: "request-content-type", id: "CAP-9", title: "Requests are application/json"}, expectHeader(headerContentType, "Content-Type: application/json")},
	{check{name: "request-accept", id: "CAP-9", title: "Requests accept both JSON and a stream"}, expectHeader(headerAccept, "Accept: application/json, text/event-stream")},
	{check{name: "request-revision", id: "CAP-9", title: "MCP-Protocol-Version has the revision of the request"}, expectHeader(headerVersion,
		"MCP-Protocol-Version with the revision of the session, or that of _meta in the stateless revision")},
	{check{name: "request-method", id: "CAP-9", title: "Mcp-Method has the method of a stateless request"}, expectHeader(headerMethod, "Mcp-Method with the method of the body")},
	{check{name: "request-name", id: "CAP-9", title: "Mcp-Name has the name of a tool, prompt or resource"}, expectHeader(headerName,
		"Mcp-Name with the name or uri in the body, of tools/call, prompts/get and resources/read")},
	{check{name: "request-id", id: "D14", title: "Concurrent requests have different ids"}, expectNoOddity("an id that another request has", "another id")},
	{check{name: "cursor-bytes", id: "CUR-1", title: "The client sends cursors unchanged"}, expectNoOddity("a cursor that no answer has given", "a cursor that an answer has given")},
	{check{name: "first-cursor", id: "CUR-2", title: "The client begins without a cursor"}, expectFreshStart},
	{check{name: "listed", id: "CLI-1", title: "The client uses listed types and modes only"}, listedOnly},
	{check{name: "extension-declared", id: "CAP-3", title: "The client declares the extension", advice: true}, expectCapabilities},
	{check{name: "callback-url", id: "SUB-3", title: "A callback is an absolute https URL without user and fragment"}, callbacks},
	{check{name: "callback-secret", id: "SUB-3", title: "A secret is whsec_ and the base64 of 24 to 64 bytes"}, secrets},
	{check{name: "sigterm", id: "CLI-1", title: "The client ends on SIGTERM", advice: true}, obeys},
}

// judgeAll evaluates alwaysChecks and reports the first scene that violates each one.
func (r *run) judgeAll(stages []*stage) []verdict.Finding {
	var all []verdict.Finding
	for _, c := range alwaysChecks {
		var err error
		tried := false
		for _, s := range stages {
			if s.unplayed != nil || len(s.requestsOf("")) == 0 {
				continue
			}
			tried = true
			if err = c.evaluate(s); err != nil {
				if v, ok := err.(*verdict.Violation); ok && v.Answer == nil {
					v.Answer = []byte(s.summary())
				}
				break
			}
		}
		if !tried {
			err = verdict.Skipf("no scene was played")
		}
		all = append(all, r.Finding(c.describe(), err))
	}
	return all
}

// expectNoOddity returns a check that the server recorded no request with the given oddity.
func expectNoOddity(what, expected string) func(s *stage) error {
	return func(s *stage) error {
		s.mu.Lock()
		a := s.odd[what]
		s.mu.Unlock()
		if a == nil {
			return nil
		}
		return newViolation(a, expected, "%s", what)
	}
}

func flooding(s *stage) error {
	if !s.flooded {
		return nil
	}
	all := s.requestsOf("")
	if len(all) == 0 {
		return newViolation(nil, "pauses", "more than %d connections", maxConns)
	}
	last := all[len(all)-1]
	return newViolation(last, "pauses", "%d requests in %.1f s, or more than %d connections", len(all), last.arrived.Seconds(), maxConns)
}

func crashed(s *stage) error {
	if len(s.exited) > 6 && s.exited[:6] == "signal" {
		return newViolation(nil, "the program to go on, or to end with an error", "%s", s.exited)
	}
	return nil
}

// expectFreshStart checks that the first request of a scene has no cursor, because the program has just been started.
func expectFreshStart(s *stage) error {
	for _, method := range []string{wire.MethodPoll, wire.MethodStream, wire.MethodSubscribe} {
		a := s.nthRequest(method, 1)
		if a == nil {
			continue
		}
		if text, ok := a.cursor(); ok {
			return newViolation(a, "cursor null or absent: a program that was just started", "%q", text)
		}
		if raw := a.params["cursor"]; len(raw) > 0 && string(raw) != "null" {
			return newViolation(a, "cursor null, absent or a string", "%s", raw)
		}
	}
	return nil
}

func listedOnly(s *stage) error {
	if s.mode == "" {
		return nil
	}
	for _, a := range s.requestsOf("") {
		if !slices.Contains([]string{wire.MethodPoll, wire.MethodStream, wire.MethodSubscribe}, a.method) || a.id == nil {
			continue
		}
		var name string
		if json.Unmarshal(a.params["name"], &name) != nil || name != EventType {
			return newViolation(a, fmt.Sprintf("name %q, the only one that is listed", EventType), "%s", a.params["name"])
		}
		if a.method != methodOf(s.mode) && s.capability != nowhere {
			return newViolation(a, "the mode "+s.mode+", the only one that is listed", "%s", a.method)
		}
	}
	return nil
}

// expectCapabilities checks the client's capabilities in the handshake or, in the stateless revision, in the first
// request (CAP-3).
func expectCapabilities(s *stage) error {
	for _, a := range s.requestsOf("") {
		capabilities := a.params["capabilities"]
		if a.method != "initialize" {
			var meta map[string]json.RawMessage
			_ = json.Unmarshal(a.params["_meta"], &meta)
			if capabilities = meta["io.modelcontextprotocol/clientCapabilities"]; capabilities == nil {
				continue
			}
		}
		var c struct {
			Extensions map[string]json.RawMessage `json:"extensions"`
		}
		if json.Unmarshal(capabilities, &c) != nil || c.Extensions[wire.ExtensionID] == nil {
			return newViolation(a, `capabilities.extensions["`+wire.ExtensionID+`"]`, "%s", capabilities)
		}
		return nil
	}
	return nil
}

func callbacks(s *stage) error {
	for _, a := range s.requestsOf(wire.MethodSubscribe) {
		if err := checkCallback(a.subscription().Delivery.URL); err != nil {
			return newViolation(a, "an absolute https URL without user and fragment", "%v", err)
		}
	}
	return nil
}

func secrets(s *stage) error {
	for _, a := range s.requestsOf(wire.MethodSubscribe) {
		if _, err := webhook.ParseSecret(a.subscription().Delivery.Secret); err != nil {
			return newViolation(a, "whsec_ and the base64 of 24 to 64 bytes", "another secret: %v", err)
		}
	}
	return nil
}

func obeys(s *stage) error {
	if s.exited == "" && !s.obeyed && !s.cutShort {
		return newViolation(nil, "the program to end on SIGTERM", "it had to be killed")
	}
	return nil
}
