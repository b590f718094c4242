package client

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A large server answers events/poll with a body of so many bytes in each of the forms that a body has.
type large struct {
	size          int
	sse, declared bool
}

func (l large) serve(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Request) bool {
	if m.Method != wire.MethodPoll {
		return false
	}
	before := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"cursor":"c0","events":[{"eventId":"e1","name":"tick","timestamp":"2026-11-20T08:00:00Z","data":{"x":"`, idText(m.ID.Raw()))
	after := `"}}]}}`
	if l.sse {
		w.Header().Set("Content-Type", "text/event-stream")
		before, after = "data: "+before, after+"\n\n"
	} else {
		w.Header().Set("Content-Type", "application/json")
	}
	if l.declared {
		w.Header().Set("Content-Length", fmt.Sprint(len(before)+len(after)+l.size))
	}
	io.WriteString(w, before)
	part := []byte(strings.Repeat("x", 64<<10))
	for n := l.size; n > 0; n -= len(part) {
		if _, err := w.Write(part[:min(n, len(part))]); err != nil {
			return true
		}
	}
	io.WriteString(w, after)
	return true
}

// allocated is what happens to be allocated while f runs, in bytes, freed or not: no collector makes the
// process larger than that.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// P8: one body, whatever a server sends, makes the client allocate three times Options.MaxMessage in all and
// never hold all of that at once; one that is too large, little more than once.
func TestLargeBodies(t *testing.T) {
	const limit = 16 << 20
	for _, l := range []large{
		{3 * limit, false, false}, {3 * limit, false, true}, {3 * limit, true, false},
		{limit - 1000, false, false}, {limit - 1000, false, true}, {limit - 1000, true, false},
	} {
		t.Run(fmt.Sprintf("%+v", l), func(t *testing.T) {
			f := newFake(false)
			f.refuse = l.serve
			srv := httptest.NewServer(f)
			defer srv.Close()
			cl, err := Connect(t.Context(), HTTP(srv.URL, srv.Client()), Options{MaxMessage: limit, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			taken := allocated(func() {
				s, err := Subscribe(t.Context(), cl, Dynamic("tick"), nil, WithMode(wire.ModePoll))
				switch {
				case l.size > limit:
					if err == nil || !strings.Contains(err.Error(), "larger than 16777216 bytes (Options.MaxMessage)") {
						t.Error(err)
					}
				case err != nil:
					t.Error(err)
				default:
					read(t, s).want("e1")
				}
			})
			t.Logf("%.2f times MaxMessage", float64(taken)/limit)
			if bound := int64(limit * 31 / 10); taken > bound {
				t.Errorf("%d bytes for one body, more than %d", taken, bound)
			}
			if l.size > limit && taken > limit*3/2 {
				t.Errorf("%d bytes for a body that is refused", taken)
			}
		})
	}
}
