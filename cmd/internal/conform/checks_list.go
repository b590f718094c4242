package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

var listChecks = []check{
	{name: "capability", id: "CAP-1", title: "The server advertises the events capability", run: checkCapability},
	{name: "capability-list-changed", id: "CAP-1", title: "listChanged of the capability is a boolean", run: checkListChanged},
	{name: "list-pages", id: "LIST-1", title: "events/list returns pages that end", run: checkPages},
	{name: "list-cursor-unknown", id: "LIST-1", title: "An unknown page cursor fails with InvalidParams", advice: true, run: checkPageCursor},
	{name: "list-descriptors", id: "LIST-2", title: "Each descriptor has its members", run: eachEntry(checkDescriptors)},
	{name: "list-names", id: "LIST-2", title: "Names have 1 to 128 characters of A-Z a-z 0-9 _ . -", advice: true, run: eachEntry(checkNames)},
	{name: "list-schemas", id: "LIST-2", title: "The schemas of each descriptor are JSON Schemas", run: eachEntry(checkSchemas)},
	{name: "list-order", id: "LIST-2", title: "The order of the list is stable", run: checkOrder},
	{name: "list-fingerprint", id: "EVOL-4", title: "A fingerprint matches the published schemas", advice: true, run: checkFingerprint},
	{name: "extension-undeclared", id: "CAP-3", title: "A caller need not declare the extension", run: checkUndeclared},
	{name: "list-unknown-members", id: "CAP-4", title: "events/list ignores unknown members", run: checkUnknownMembers},
	{name: "id-value", id: "CAP-6", title: "A response has the type and value of the request's id", run: checkIDs},
	{name: "id-bytes", id: "CAP-6", title: "A response has the bytes of the request's id", advice: true, run: checkIDBytes},
	{name: "result-type-present", id: "D3", title: "Results of the stateless revision have resultType", advice: true, run: checkResultTypeSent},
}

func checkCapability(_ context.Context, r *run) error {
	standard, experimental := wire.EventsCapabilities(r.capabilities)
	found := "neither"
	switch {
	case len(standard) > 0:
		return nil
	case len(experimental) > 0:
		found = "it in capabilities.experimental, which few clients read"
	}
	return r.hello.violation(fmt.Sprintf("capabilities.%s or capabilities.extensions[%q]", wire.CapabilityKey, wire.ExtensionID), "%s", found)
}

func checkListChanged(_ context.Context, r *run) error {
	standard, _ := wire.EventsCapabilities(r.capabilities)
	for _, place := range standard {
		if !bytes.HasPrefix(bytes.TrimSpace(place), []byte("{")) {
			return r.hello.violation("the capability to be an object", "%s", wire.Shown(string(place)))
		}
		if raw := member(place, "listChanged"); raw != nil && string(raw) != "true" && string(raw) != "false" {
			return r.hello.violation("listChanged to be true or false", "%s", wire.Shown(string(raw)))
		}
	}
	return nil
}

// An entry is an entry of events/list, with the exchange that returned it.
type entry struct {
	raw  json.RawMessage
	from *exchange
}

// readList reads every page of events/list. It returns the entries up to the first fault, and a violation that describes
// that.
func (r *run) readList(ctx context.Context) (entries []entry, err error) {
	params, seen := map[string]any{}, map[string]bool{}
	var x *exchange
	for range maxPages {
		x, err = r.mustSend(ctx, request{method: wire.MethodList, params: params}, "a page of the list")
		if r.listed == nil {
			r.listed = x
		}
		if err != nil {
			return entries, err
		}
		page, err := wire.DecodeListPage(x.answer.result)
		if err != nil {
			return entries, x.violation("a page of the list", "%v", err)
		}
		for _, raw := range page.Entries {
			entries = append(entries, entry{raw, x})
		}
		for _, name := range []string{"events", "nextCursor"} {
			if string(member(x.answer.result, name)) == "null" {
				return entries, x.violation(name+" to be present and of its type, or absent", "null")
			}
		}
		if page.NextCursor == "" {
			return entries, nil
		}
		if seen[page.NextCursor] {
			return entries, x.violation("a new nextCursor", "the nextCursor of an earlier page")
		}
		seen[page.NextCursor] = true
		params = map[string]any{"cursor": page.NextCursor}
	}
	return entries, x.violation("the list to end", "more than %d pages", maxPages)
}

// eachEntry returns a check that calls try for every entry of the list.
func eachEntry(try func(x *exchange, raw json.RawMessage) error) func(context.Context, *run) error {
	return func(_ context.Context, r *run) error {
		for _, e := range r.entries {
			if err := try(e.from, e.raw); err != nil {
				return err
			}
		}
		return nil
	}
}

func checkPages(_ context.Context, r *run) error {
	names := map[string]bool{}
	for _, e := range r.entries {
		var name string
		_ = json.Unmarshal(member(e.raw, "name"), &name)
		if name != "" && names[name] {
			return e.from.violation("each event type once", "%s again", wire.Shown(name))
		}
		names[name] = true
	}
	return r.listFault
}

func checkPageCursor(ctx context.Context, r *run) error {
	return r.expectCallError(ctx, wire.MethodList, map[string]any{"cursor": "mcpe-gen-conform-no-such-page"}, wire.InvalidParams)
}

func checkDescriptors(x *exchange, raw json.RawMessage) error {
	var name, description string
	if json.Unmarshal(member(raw, "name"), &name) != nil || name == "" {
		return x.violation("a name", "%s", orNone(member(raw, "name")))
	}
	if text := member(raw, "description"); text == nil || string(text) == "null" || json.Unmarshal(text, &description) != nil {
		return x.violation(name+" to have a description", "%s", orNone(member(raw, "description")))
	}
	var modes []string
	if json.Unmarshal(member(raw, "delivery"), &modes) != nil || len(modes) == 0 {
		return x.violation(name+" to have one delivery mode or more", "%s", orNone(member(raw, "delivery")))
	}
	for i, m := range modes {
		if slices.Contains(modes[:i], m) {
			return x.violation(name+" to name each delivery mode once", "%s", orNone(member(raw, "delivery")))
		}
	}
	for _, schema := range []string{"inputSchema", "payloadSchema"} {
		if v := bytes.TrimSpace(member(raw, schema)); !bytes.HasPrefix(v, []byte("{")) {
			return x.violation(name+" to have an "+schema+" that is an object", "%s", orNone(v))
		}
	}
	return nil
}

func checkNames(x *exchange, raw json.RawMessage) error {
	var name string
	if json.Unmarshal(member(raw, "name"), &name) == nil && wire.CheckEventName(name) != nil {
		return x.violation("a name that every client takes", "%s", wire.Shown(name))
	}
	return nil
}

func checkSchemas(x *exchange, raw json.RawMessage) error {
	for _, name := range []string{"inputSchema", "payloadSchema"} {
		schema := member(raw, name)
		if schema == nil {
			continue // another check reports this
		}
		if _, err := validate.Compile(schema); err != nil {
			return x.violation(fmt.Sprintf("the %s of %s to be a JSON Schema", name, wire.Shown(string(member(raw, "name")))),
				"%v", err)
		}
	}
	return nil
}

func checkOrder(ctx context.Context, r *run) error {
	for range 2 {
		again, err := r.readList(ctx)
		if err != nil {
			return err
		}
		if !slices.EqualFunc(r.entries, again, func(a, b entry) bool { return string(member(a.raw, "name")) == string(member(b.raw, "name")) }) {
			return r.lastExchange.violation("the order of the list before", "another one")
		}
	}
	return nil
}

func checkFingerprint(_ context.Context, r *run) error {
	found := false
	for _, s := range r.types {
		published, ok := s.Meta[wire.MetaFingerprint].(string)
		if !ok {
			continue
		}
		found = true
		if own, err := wire.Fingerprint(s.InputSchema, s.PayloadSchema); err == nil && own != published {
			return r.listed.violation(fmt.Sprintf("%s to have the fingerprint %s", s.Name, own), "%s", wire.Shown(published))
		}
	}
	if !found {
		return skipf("no descriptor has a fingerprint")
	}
	return nil
}

func checkUndeclared(ctx context.Context, r *run) error {
	if r.revision < wire.RevisionStateless {
		return skipf("capabilities are declared once, by initialize, on this revision")
	}
	_, err := r.mustSend(ctx, request{method: wire.MethodList, omitsExtension: true}, "the list")
	return err
}

func checkUnknownMembers(ctx context.Context, r *run) error {
	return r.expectResult(ctx, wire.MethodList, unknownMembers, "the members to be ignored")
}

// expectEchoed checks that the server returns each request ID unchanged.
func (r *run) expectEchoed(ctx context.Context, ids ...string) error {
	for _, id := range ids {
		x, err := r.send(ctx, request{id: json.RawMessage(id), method: wire.MethodList, within: r.o.pace.call / 2})
		if err != nil {
			return err
		}
		if string(x.answer.id) != id {
			return x.violation("the id "+id, "%s", orNone(x.answer.id))
		}
	}
	return nil
}

func checkIDs(ctx context.Context, r *run) error {
	return r.expectEchoed(ctx, `"mcpe-gen"`, `"70001"`, `70002`, `-70003`, `0`, `""`, `9007199254740991`, `"ü ☃"`)
}

func checkIDBytes(ctx context.Context, r *run) error {
	return r.expectEchoed(ctx, `9007199254740993`, `70004.0`, `7e4`)
}

func checkResultTypeSent(_ context.Context, r *run) error {
	if r.revision < wire.RevisionStateless {
		return skipf("the server speaks an older revision")
	}
	if r.listed.answer.err == nil && member(r.listed.answer.result, "resultType") == nil {
		return r.listed.violation(`resultType "complete"`, "none")
	}
	return nil
}
