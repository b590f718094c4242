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

// maxStreamLife is the maximum life of a stream that is cut off.
const maxStreamLife = 5 * time.Second

// Texts that identify requests that may be cut off; a match elsewhere is harmless.
var (
	ofEvents = []byte(`"` + wire.MethodPrefix)
	ofList   = []byte(`"` + wire.MethodList + `"`)
	ofStream = []byte(`"` + wire.MethodStream + `"`)
)

// drops decides whether to drop a request. It spares handshakes and lists: without them a client would not get
// anywhere.
func (o Options) drops(request []byte) bool {
	return o.Drop > 0 && bytes.Contains(request, ofEvents) && !bytes.Contains(request, ofList) && rand.Float64() < o.Drop
}

// maxPeek is how much of a body is searched for its method.
const maxPeek = 64 << 10

// faulty delays requests and cuts some off, as a bad network does. It cuts a stream after a while, in which something
// may have arrived. Of the other requests it drops half before and half after they are handled; the client has to retry
// in both cases.
func (t *trial) faulty(next http.Handler) http.Handler {
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
		if !t.o.drops(begin) {
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

// faultyLines does the same to requests on standard input: it delays them and drops some.
func (t *trial) faultyLines(ctx context.Context, in io.ReadCloser) io.ReadCloser {
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
			} else if !t.o.drops(line) {
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
