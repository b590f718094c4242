package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// LIST-2: the bound of a list is that of all its pages, to the byte; beyond it List and Subscribe say how much there was.
func TestListIsBoundedInAll(t *testing.T) {
	pages, all := map[string]json.RawMessage{}, int64(0)
	for i, cursor := range []string{"", "p2", "p3"} {
		next := []string{`,"nextCursor":"p2"`, `,"nextCursor":"p3"`, ""}[i]
		pages[cursor] = json.RawMessage(fmt.Sprintf(`{"events":[{"name":"e%d","description":%q,"delivery":["poll"],"inputSchema":{"type":"object"},"payloadSchema":{"type":"object"}}]%s}`,
			i, strings.Repeat("x", 2000), next))
		all += int64(len(pages[cursor]))
	}
	listing := func(m *jsonrpc.Request) any {
		var p wire.ListParams
		_ = json.Unmarshal(m.Params, &p)
		return pages[p.Cursor]
	}
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		f.override = listing
		if list, err := connect(t, f, c, Options{MaxMessage: all}).List(t.Context()); err != nil || len(list) != 3 {
			t.Errorf("%d entries of a list of the bound: %v", len(list), err)
		}
	})
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		f.override = listing
		cl := connect(t, f, c, Options{MaxMessage: all - 1})
		_, err := cl.List(t.Context())
		var answer *AnswerError
		want := fmt.Sprintf("client: answer to events/list: the list, with %d bytes after 2 entries of /events, is larger than %d bytes (Options.MaxMessage)", all, all-1)
		if !errors.As(err, &answer) || !errors.Is(err, ErrTooLarge) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if _, err = Subscribe(t.Context(), cl, Dynamic("e0"), json.RawMessage(nil)); !errors.Is(err, ErrTooLarge) {
			t.Errorf("subscribing: %v", err)
		}
	})
}
