package serve

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/inbound"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// maxStreamLife is the maximum lifetime of a stream that is cut off.
const maxStreamLife = 5 * time.Second

// These texts identify requests that may be cut off. A match elsewhere is harmless.
var (
	ofEvents = []byte(`"` + wire.MethodPrefix)
	ofList   = []byte(`"` + wire.MethodList + `"`)
	ofStream = []byte(`"` + wire.MethodStream + `"`)
)

// shouldDrop decides at random whether to drop a request. It never drops handshakes or lists because a client could not
// continue without them.
func (o Options) shouldDrop(request []byte) bool {
	return o.Drop > 0 && bytes.Contains(request, ofEvents) && !bytes.Contains(request, ofList) && rand.Float64() < o.Drop
}

// maxPeek limits how much of a body is searched for its method.
const maxPeek = 64 << 10

// injectFaults delays requests and cuts some of them off, like an unreliable network. It cuts a stream off after a
// while, so some messages arrive first. It drops half of the other requests before they are handled and half after. The
// client has to retry in both cases.
func (t *trial) injectFaults(next http.Handler) http.Handler {
	if t.o.Drop == 0 && t.o.Delay == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin, _ := io.ReadAll(io.LimitReader(r.Body, maxPeek))
		inbound.Lift(w)
		if !wait(r.Context(), t.o.Delay) {
			return
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(begin), r.Body), r.Body}
		if !t.o.shouldDrop(begin) {
			next.ServeHTTP(w, r)
			return
		}
		ctx, cut := context.WithTimeout(r.Context(), time.Duration(rand.Int64N(int64(maxStreamLife))))
		defer cut()
		switch {
		case bytes.Contains(begin, ofStream):
			next.ServeHTTP(w, r.WithContext(ctx))
		case rand.IntN(2) == 0:
			next.ServeHTTP(void{http.Header{}}, r.WithContext(ctx))
		}
		panic(http.ErrAbortHandler)
	})
}

// A void discards an answer.
type void struct{ header http.Header }

func (v void) Header() http.Header         { return v.header }
func (v void) WriteHeader(int)             {}
func (v void) Write(b []byte) (int, error) { return len(b), nil }

// injectLineFaults is the equivalent of injectFaults for requests on standard input. It delays them and drops some.
func (t *trial) injectLineFaults(ctx context.Context, in io.ReadCloser) io.ReadCloser {
	if t.o.Drop == 0 && t.o.Delay == 0 {
		return in
	}
	out, pipe := io.Pipe()
	go func() {
		lines := bufio.NewReader(in)
		for {
			line, err := lines.ReadBytes('\n')
			if !wait(ctx, t.o.Delay) {
				err = ctx.Err()
			} else if !t.o.shouldDrop(line) {
				if _, failed := pipe.Write(line); failed != nil {
					err = failed
				}
			}
			if err != nil {
				pipe.CloseWithError(err)
				return
			}
		}
	}()
	return out
}
