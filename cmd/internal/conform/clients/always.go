package clients

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// alwaysChecks are checks of requirements that apply to every scene.
var alwaysChecks = []check{
	{name: "request-rate", id: "CLI-3", title: "The client does not flood the server with requests", run: flooding},
	{name: "crash", id: "CLI-2", title: "The client does not crash", run: crashed},
	{name: "request-message", id: "CAP-6", title: "Requests are JSON-RPC messages", run: expectNoOddity(notJSONRPC,
		"an object with jsonrpc 2.0, a method, params that are an object, and an id that is a number or a string")},
	{name: "request-content-type", id: "CAP-9", title: "Requests are application/json", run: expectNoOddity(headerContentType, "Content-Type: application/json")},
	{name: "request-accept", id: "CAP-9", title: "Requests accept both JSON and a stream", run: expectNoOddity(headerAccept, "Accept: application/json, text/event-stream")},
	{name: "request-revision", id: "CAP-9", title: "MCP-Protocol-Version has the revision of the request", run: expectNoOddity(wire.HeaderProtocolVersion,
		"MCP-Protocol-Version with the revision of the session, or that of _meta in the stateless revision")},
	{name: "request-method", id: "CAP-9", title: "Mcp-Method has the method of a stateless request", run: expectNoOddity(wire.HeaderMethod, "Mcp-Method with the method of the body")},
	{name: "request-name", id: "CAP-9", title: "Mcp-Name has the name of a tool, prompt or resource", run: expectNoOddity(wire.HeaderName,
		"Mcp-Name with the name or uri in the body, of tools/call, prompts/get and resources/read")},
	{name: "request-id", id: "D14", title: "Concurrent requests have different ids", run: expectNoOddity(repeatedID, "another id")},
	{name: "cursor-bytes", id: "CUR-1", title: "The client sends cursors unchanged", run: expectNoOddity(unknownCursor, "a cursor that an answer has given")},
	{name: "first-cursor", id: "CUR-2", title: "The client begins without a cursor", run: expectFreshStart},
	{name: "listed", id: "CLI-1", title: "The client uses listed types and modes only", run: listedOnly},
	{name: "extension-declared", id: "CAP-3", title: "The client declares the extension", advice: true, run: expectCapabilities},
	{name: "callback-url", id: "SUB-3", title: "A callback is an absolute https URL without user and fragment", run: expectNoOddity(invalidCallback, "an absolute https URL without user and fragment")},
	{name: "callback-secret", id: "SUB-3", title: "A secret is whsec_ and the base64 of 24 to 64 bytes", run: expectNoOddity(invalidSecret, "whsec_ and the base64 of 24 to 64 bytes")},
	{name: "sigterm", id: "CLI-1", title: "The client ends on SIGTERM", advice: true, run: obeys},
}

// judgeAll evaluates alwaysChecks and reports the first scene that violates each one.
func (r *run) judgeAll(stages []*stage) []verdict.Finding {
	played := slices.DeleteFunc(slices.Clone(stages), func(s *stage) bool { return s.unplayed != nil || len(s.requestsOf("")) == 0 })
	var all []verdict.Finding
	for _, c := range alwaysChecks {
		var err error
		if len(played) == 0 {
			err = verdict.Skipf("no scene was played")
		}
		for i := 0; i < len(played) && err == nil; i++ {
			err = played[i].try(c)
		}
		all = append(all, r.Finding(c.describe(), err))
	}
	return all
}

// Oddities of requests that are not about a header.
const (
	notJSONRPC      = "no message of JSON-RPC"
	repeatedID      = "an id that another request has"
	unknownCursor   = "a cursor that no answer has given"
	invalidCallback = "an invalid callback"
	failedChallenge = "a failed challenge"
	invalidSecret   = "an invalid secret"
	acceptedForgery = "a forged delivery that the callback accepts"
)

// An oddity is the first request with a fault. got describes the fault.
type oddity struct {
	ask *clientCall
	got string
}

// expectNoOddity returns a check that no request has an oddity, which is a header's name or one of the texts above.
func expectNoOddity(what, expected string) func(s *stage) error {
	return func(s *stage) error {
		s.mu.Lock()
		odd, ok := s.odd[what]
		s.mu.Unlock()
		if !ok {
			return nil
		}
		return newViolation(odd.ask, expected, "%s", odd.got)
	}
}

func flooding(s *stage) error {
	if !s.flooded {
		return nil
	}
	all := s.requestsOf("")
	last := all[len(all)-1]
	return newViolation(last, "pauses", "%d requests in %.1f s, or more than %d connections", len(all), last.arrived.Seconds(), maxConns)
}

func crashed(s *stage) error {
	if strings.HasPrefix(s.exited, "signal") {
		return newViolation(nil, "the program to go on, or to end with an error", "%s", s.exited)
	}
	return nil
}

// expectFreshStart checks that the first request of a scene has no cursor, because the program has just been started.
func expectFreshStart(s *stage) error {
	if a := s.nthRequest(methodOf(s.mode), 1); a != nil && a.hasCursor() {
		return newViolation(a, "cursor null or absent: a program that was just started", "%s", a.params["cursor"])
	}
	return nil
}

func listedOnly(s *stage) error {
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
		var meta map[string]json.RawMessage
		_ = json.Unmarshal(a.params["_meta"], &meta)
		capabilities := meta["io.modelcontextprotocol/clientCapabilities"]
		if a.method == "initialize" {
			capabilities = a.params["capabilities"]
		}
		var c struct {
			Extensions map[string]json.RawMessage `json:"extensions"`
		}
		switch err := json.Unmarshal(capabilities, &c); {
		case capabilities == nil:
			continue
		case err != nil || c.Extensions[wire.ExtensionID] == nil:
			return newViolation(a, `capabilities.extensions["`+wire.ExtensionID+`"]`, "%s", capabilities)
		}
		return nil
	}
	return nil
}

func obeys(s *stage) error {
	if s.exited == "" && !s.obeyed && !s.cutShort {
		return newViolation(nil, "the program to end on SIGTERM", "it had to be killed")
	}
	return nil
}
