package waittool

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
)

// A descriptor that the SDK would panic on, or that could not work, is refused by its reason, and nothing is added.
func TestAddReadRefuses(t *testing.T) {
	s := newBed(t)
	s.event("e", true, false)
	for want, change := range map[string]func(*readtool.Tool){
		"not registered: other":                func(t *readtool.Tool) { t.Event = "other" },
		"it names no event":                    func(t *readtool.Tool) { t.Event = "" },
		"it has no name":                       func(t *readtool.Tool) { t.Tool.Name = "" },
		"two different argument names":         func(t *readtool.Tool) { t.CursorArgument = t.MaxEventsArgument },
		"another argument name":                func(t *readtool.Tool) { t.WaitArgument = t.CursorArgument },
		"must be an object schema":             func(t *readtool.Tool) { t.Tool.InputSchema = json.RawMessage(`{"type":"string"}`) },
		"inputSchema: json: unsupported type":  func(t *readtool.Tool) { t.Tool.InputSchema = make(chan int) },
		"outputSchema: json: unsupported type": func(t *readtool.Tool) { t.Tool.OutputSchema = make(chan int) },
	} {
		bad := readTool("e")
		change(&bad)
		if err := s.AddRead(readTool("e"), bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if n := len(list(t, s).Tools); n != 0 {
		t.Errorf("%d tools were added", n)
	}
	if err := errors.Join(s.AddRead(readTool("e")), s.AddWait()); err != nil {
		t.Fatal(err)
	}
	if n := len(list(t, s).Tools); n != 2 {
		t.Errorf("%d of two tools were added", n)
	}
	var none Tools
	if none.AddRead() == nil || none.AddWait() == nil {
		t.Error("a server that only emits serves tools")
	}
}

func list(t *testing.T, s *bed) *mcp.ListToolsResult {
	t.Helper()
	ours, theirs := mcp.NewInMemoryTransports()
	if _, err := s.MCP.Connect(t.Context(), theirs, nil); err != nil {
		t.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(), ours, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	page, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// LIST-4: a page of tools/list has no read tools of what its caller cannot see, and the wait tool lists what the caller
// can wait for, within a bound. Only where not all callers see the same is the page not for shared caches.
func TestShown(t *testing.T) {
	s := newBed(t)
	s.event("open", true, false)
	s.event("secret", true, false)
	s.refused["secret"] = errors.New("the hook is broken")
	if err := errors.Join(s.AddRead(readTool("open"), readTool("secret")), s.AddWait()); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	s.Log = &fault.Log{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	req := &mcp.ListToolsRequest{Params: &mcp.ListToolsParams{}}
	page := &mcp.ListToolsResult{Tools: []*mcp.Tool{{Name: "other"}, {Name: "read_open"}, {Name: "read_secret"}, {Name: Name, Description: "Waits."}}}
	page.CacheScope = "public"
	for _, private := range []bool{false, true} {
		s.Private = private
		shown := s.Shown(t.Context(), req, page)
		var names []string
		for _, tool := range shown.Tools {
			names = append(names, tool.Name)
		}
		if got := strings.Join(names, " "); got != "other read_open events_wait" {
			t.Errorf("shown: %s", got)
		}
		if want := map[bool]string{false: "public", true: "private"}[private]; shown.CacheScope != want {
			t.Errorf("cacheScope is %s, want %s", shown.CacheScope, want)
		}
	}
	if !strings.Contains(log.String(), "the hook is broken") {
		t.Errorf("logged %q", log.String())
	}
	describe := func() string { return s.Shown(t.Context(), req, page).Tools[2].Description }
	if got := describe(); !strings.HasPrefix(got, "Waits.\n\nThe event types:\n- open: An incident. Arguments: {") {
		t.Errorf("%s", got)
	}
	for i := range 100 {
		s.event(fmt.Sprint("more", i), true, false)
	}
	if got := describe(); len(got) > maxList+100 || !strings.HasSuffix(got, " more") {
		t.Errorf("%d bytes: …%s", len(got), got[len(got)-100:])
	}
	if page.Tools[3].Description != "Waits." || len(page.Tools) != 4 {
		t.Error("the page of the SDK was changed")
	}
	long := Offer{Name: "e", Description: strings.Repeat("ü", maxLine), InputSchema: json.RawMessage(`{"properties":{"` + strings.Repeat("x", maxSchema) + `":{}}}`)}
	if got := long.line(); len(got) > maxLine+20 || !strings.HasSuffix(got, "ü…") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

// A read tool gives the page of a poll, and an error of the author's says nothing of the inside (ERR-4).
func TestReadTool(t *testing.T) {
	s := newBed(t)
	checked := s.event("checked", false, true)
	cursor := mustWait(t, s, "read_checked", `{}`).Cursor
	checked.Put("1")
	if got := mustWait(t, s, "read_checked", fmt.Sprintf(`{"cursor":%q,"maxEvents":1}`, cursor)); strings.Join(got.ids(), " ") != "1" || got.Notice == "" {
		t.Errorf("%+v", got)
	}
	checked.Fail(errors.New("secret text"))
	for _, args := range []string{`{"cursor":"` + cursor + `"}`, `{"waitSeconds":5,"cursor":"` + cursor + `"}`, `{"waitSeconds":5}`} {
		if _, problem, err := s.tool(t.Context(), "read_checked", args); problem == "" || strings.Contains(problem, "secret") {
			t.Errorf("%s: %q %v", args, problem, err)
		}
	}
	for args, want := range map[string]string{`{"cursor":1}`: "/cursor", `{"maxEvents":0}`: "/maxEvents", `[]`: "must be an object", `{"severity":"P9"}`: "/severity",
		`{"cursor":1,"cursor":2}`: "InvalidParams"} {
		if _, problem, err := s.tool(t.Context(), "read_checked", args); !strings.Contains(problem, want) {
			t.Errorf("%s: %q %v, want %s", args, problem, err, want)
		}
	}
}
