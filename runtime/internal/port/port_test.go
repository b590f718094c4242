package port

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
)

// MCPE-CAP-1, CONV-1: what adapters advertise is beside what the author's server has, which is not changed.
func TestAdvertise(t *testing.T) {
	h, info := new(Hub), &mcp.Implementation{Name: "srv"}
	mine := &mcp.ServerCapabilities{Experimental: map[string]any{"mine": 1}}
	if got := h.WithExperimental(mine, info); got != mine {
		t.Errorf("where nothing is advertised: %+v", got)
	}
	h.Advertise("named", func(info *mcp.Implementation) any { return info.Name })
	h.AdvertiseTopLevel("top", map[string]int{"v": 1})
	want := map[string]any{"mine": 1, "named": "srv", "top": map[string]int{"v": 1}}
	if diff := cmp.Diff(want, h.WithExperimental(mine, info).Experimental); diff != "" || len(mine.Experimental) != 1 {
		t.Errorf("%s, and the author's own is %v", diff, mine.Experimental)
	}
	delete(want, "mine")
	if diff := cmp.Diff(want, h.WithExperimental(nil, info).Experimental); diff != "" {
		t.Errorf("of a server without capabilities: %s", diff)
	}
	top, err := h.TopLevel()
	if len(top) != 1 || string(top["top"]) != `{"v":1}` || err != nil {
		t.Errorf("%s, %v", top, err)
	}
	h.AdvertiseTopLevel("bad", math.NaN())
	if _, err := h.TopLevel(); err == nil {
		t.Error("what JSON does not have is advertised")
	}
}

// Params come as they were received, with _meta where there is one; what is no object is the method's to refuse.
func TestParams(t *testing.T) {
	for _, row := range []struct{ in, meta string }{
		{`{"a": 1.50, "_meta": {"k": "v"}}`, `{"k":"v"}`}, {`{"a":1,"a":2}`, `null`}, {`[1]`, `null`}, {`"x"`, `null`}, {`{"_meta": 7}`, `null`},
	} {
		p := new(Params)
		text := []byte(row.in)
		if err := p.UnmarshalJSON(text); err != nil {
			t.Errorf("%s: %v", row.in, err)
		}
		clear(text) // the bytes are the caller's
		out, err := p.MarshalJSON()
		if meta, _ := json.Marshal(p.Meta); string(out) != row.in || err != nil || string(meta) != row.meta {
			t.Errorf("%s: %s, %v, _meta %s", row.in, out, err, meta)
		}
	}
	for _, p := range []*Params{nil, {}} {
		if out, err := p.MarshalJSON(); string(out) != "null" || err != nil {
			t.Errorf("absent params: %s, %v", out, err)
		}
	}
}

// An inside is a server whose callers are named by their token.
type inside struct {
	Inside
	shared bool
}

func (i inside) Shared() bool { return i.shared }

func (inside) Authenticate(_ context.Context, extra *mcp.RequestExtra) (string, time.Time) {
	if extra == nil || extra.TokenInfo == nil {
		return "", time.Time{}
	}
	return extra.TokenInfo.UserID, extra.TokenInfo.Expiration
}

// REP-18: adapters are not for a store that processes share, and the refusal names the protocol.
func TestCheckAlone(t *testing.T) {
	if err := (&Port{new(Hub), inside{}}).CheckAlone("MCPE"); err != nil {
		t.Error(err)
	}
	if err := (&Port{new(Hub), inside{shared: true}}).CheckAlone("MCPE"); err == nil || !strings.HasPrefix(err.Error(), "MCPE ") {
		t.Errorf("on a shared store: %v", err)
	}
	if got := hook.Principal(AsPrincipal(t.Context(), "ann")); got != "ann" {
		t.Errorf("as %q", got)
	}
}

// A request is one of a caller.
type request struct {
	mcp.Request
	extra   *mcp.RequestExtra
	version string
}

func (r request) GetExtra() *mcp.RequestExtra { return r.extra }
func (r request) GetSession() mcp.Session     { return (*mcp.ServerSession)(nil) }
func (r request) ProtocolVersion() string     { return r.version }

// MCPE-NOTE-3, MCPE-NOTE-4: a caller is found by what its carrier told, in the stateless era without a session, and
// what comes after the reply waits for it; without a carrier it comes soon.
func TestCallerOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Port{new(Hub), inside{}}
		ticket, replied := p.ExpectReply(t.Context(), "session", "connection", true)
		extra := WithReply(&mcp.RequestExtra{Header: http.Header{"X": {"kept"}}}, ticket)
		if extra.Header.Get("X") != "kept" || WithReply(nil, "t").Header.Get(ReplyHeader) != "t" {
			t.Errorf("%v", extra.Header)
		}
		for version, session := range map[string]string{"2025-06-18": "session", wire.RevisionStateless: ""} {
			c := p.CallerOf(t.Context(), request{extra: extra, version: version})
			if c.Session != session || c.Connection != "connection" || !c.Local || c.Stateless != (session == "") {
				t.Errorf("%s: %+v", version, c)
			}
		}
		c := p.CallerOf(t.Context(), request{extra: extra})
		var told atomic.Int64
		c.AfterReply(func() { told.Add(1) })
		if synctest.Wait(); told.Load() != 0 {
			t.Error("told before the reply")
		}
		replied()
		if told.Load() != 1 {
			t.Errorf("told %d times by the reply", told.Load())
		}
		c.AfterReply(func() { told.Add(1) })
		p.CallerOf(t.Context(), request{}).AfterReply(func() { told.Add(1) })
		if synctest.Wait(); told.Load() != 3 {
			t.Errorf("told %d times: one after the reply, one without a carrier", told.Load())
		}
	})
}

// MCPE-NOTE-4: keys are listed once each. A session's end is told to who listens, until stop.
func TestListenKeysAndEnds(t *testing.T) {
	h := new(Hub)
	h.AddListenKey("a")
	before := h.ListenKeys()
	h.AddListenKey("b")
	h.AddListenKey("a")
	if diff := cmp.Diff([]string{"a", "b"}, h.ListenKeys()); diff != "" || len(before) != 1 {
		t.Errorf("%s; a list that was given out is %v", diff, before)
	}
	var told []string
	stop := h.OnSessionEnd(func(session, principal string) { told = append(told, session+" "+principal) })
	h.EndSession("s", "ann")()
	stop()
	h.EndSession("t", "ann")()
	if diff := cmp.Diff([]string{"s ann"}, told); diff != "" {
		t.Error(diff)
	}
}
