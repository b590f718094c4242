package conform

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// These limits apply to the data that is read from a server and retained.
const (
	maxMessage = 4 << 20
	maxKept    = 2000
)

// A link carries raw messages to and from the server.
type link interface {
	// start sends a request; its flow receives the messages that belong to it, up to the response.
	start(ctx context.Context, q request, body []byte) (*flow, error)
	// notify sends a notification.
	notify(ctx context.Context, method string, params map[string]any) error
	// settle stores the revision and session from the handshake.
	settle(revision, session string)
	close()
}

// A flow receives and retains the messages of one request, up to a limit. It wakes waiters when a message arrives.
type flow struct {
	id          json.RawMessage
	status      int
	contentType string
	session     string
	date        time.Time // the server's date, from the HTTP header
	stop        context.CancelFunc
	// ctx ends when the response has taken too long. sent is when the request was sent.
	ctx  context.Context
	sent time.Time
	// observe is called for each message.
	observe func(*flow, message)

	mu      sync.Mutex
	kept    []message
	dropped int
	comment bool // an SSE comment came
	ended   bool
	err     error
	changed chan struct{} // closed and replaced on every change
}

func newFlow(id json.RawMessage, stop context.CancelFunc, observe func(*flow, message)) *flow {
	return &flow{id: id, stop: stop, observe: observe, changed: make(chan struct{})}
}

func (f *flow) add(m message) {
	f.observe(f, m)
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.kept) >= maxKept && !m.isResponse() {
		f.dropped++
		return
	}
	f.kept = append(f.kept, m)
	f.wake()
}

// hasComments reports whether the stream contained SSE comments.
func (f *flow) hasComments() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.comment
}

// isOver reports whether the flow has ended or exceeded its limit.
func (f *flow) isOver() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended || f.dropped > 0
}

// finish ends the flow. err is nil if the server ended it properly.
func (f *flow) finish(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.ended, f.err = true, err
		f.wake()
	}
}

func (f *flow) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// messages returns the messages so far and whether the flow has ended.
func (f *flow) messages() (kept []message, ended bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.kept[:len(f.kept):len(f.kept)], f.ended, f.err
}

// await waits for the first message that satisfies want and returns it. It returns false if the flow or ctx ends first.
func (f *flow) await(ctx context.Context, want func(message) bool) (message, bool) {
	next := 0
	for {
		f.mu.Lock()
		kept, ended, changed := f.kept, f.ended, f.changed
		f.mu.Unlock()
		for ; next < len(kept); next++ {
			if want(kept[next]) {
				return kept[next], true
			}
		}
		if ended {
			return message{}, false
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return message{}, false
		}
	}
}

// response waits for the response.
func (f *flow) response(ctx context.Context, request []byte) (*exchange, error) {
	x := &exchange{request: request, status: f.status, contentType: f.contentType, date: f.date}
	m, ok := f.await(ctx, message.isResponse)
	_, ended, err := f.messages()
	switch {
	case ok:
		x.answer = m
		return x, nil
	case ended && err != nil:
		return x, err
	case ended:
		return x, fmt.Errorf("the answer ended without a response")
	}
	return x, context.Cause(ctx)
}

var errTooLong = errors.New("a line that is too long")

// readLine returns the next line without its line ending. It skips a line longer than maxMessage bytes and returns
// errTooLong. A last line without a line ending is also returned.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line) <= maxMessage {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil && (err != io.EOF || len(line) == 0):
			return nil, err
		case len(line) > maxMessage:
			return nil, errTooLong
		default:
			return bytes.TrimSpace(line), nil
		}
	}
}
