package client

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// What waits for the application, or for its subscription, is bounded in bytes as well as in number, and
// one message that is larger than the bound passes all the same (CLI-2). inbox.put and inflow.put carry it.
func TestCLI2BoundedBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := item{occurrence: &wire.Occurrence{Data: json.RawMessage(strings.Repeat("x", 60))}}
		b := newInbox(100, 100)
		put := 0
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			for b.put(ctx, large) == nil {
				put++
			}
		}()
		for taken := range 5 {
			synctest.Wait()
			if put != 2+taken {
				t.Fatalf("%d items of 60 bytes in, %d out, with a bound of 100", put, taken)
			}
			b.tryTake()
		}
		q := newFrameQueue(false)
		f := frame{"m", json.RawMessage(strings.Repeat("x", frameBytes/2+1))}
		frames := 0
		go func() {
			for ctx.Err() == nil {
				q.put(ctx, f)
				frames++
			}
		}()
		for taken := range 5 {
			synctest.Wait()
			if frames != 2+taken {
				t.Fatalf("%d frames in, %d out", frames, taken)
			}
			q.release(<-q.frames)
		}
	})
}

// A body is bounded after it was unpacked, and the last byte within the bound still counts.
func TestReadBounded(t *testing.T) {
	for n, ok := range map[int]bool{0: true, 9: true, 10: true, 11: false, 1000: false} {
		body, err := readBounded(io.LimitReader(zeros{}, int64(n)), 10)
		if (err == nil) != ok || ok && len(body) != n || !ok && !strings.Contains(err.Error(), "10 bytes (Options.MaxMessage)") {
			t.Errorf("%d: %d bytes, %v", n, len(body), err)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
