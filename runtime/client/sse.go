package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A blockReader reads the blocks of an SSE body.
type blockReader struct {
	in    *bufio.Reader
	limit int64 // of one block
	begun bool
}

func newBlockReader(body io.Reader, limit int64) *blockReader {
	return &blockReader{in: bufio.NewReaderSize(body, 16<<10), limit: limit}
}

// next returns the next block, which ends with an empty line. At the end of the body it returns the remaining lines and
// an error.
func (b *blockReader) next() ([]byte, error) {
	if !b.begun {
		b.begun = true
		b.skipByteOrderMark()
	}
	var g pieceBuffer
	for begins := true; ; {
		part, err := b.in.ReadSlice('\n')
		g.add(part)
		if g.size > b.limit {
			return nil, errTooLarge("an SSE event", b.limit)
		}
		switch {
		case err == nil && begins && len(bytes.TrimRight(part, "\r\n")) == 0:
			return g.bytes(), nil
		case err != nil && err != bufio.ErrBufferFull:
			return g.bytes(), err
		}
		begins = err == nil
	}
}

// byteOrderMark may precede an event stream but is not part of its first line.
const byteOrderMark = "\ufeff"

// skipByteOrderMark discards a byte order mark. It waits for further bytes only if the first byte is that of a mark.
func (b *blockReader) skipByteOrderMark() {
	if first, _ := b.in.Peek(1); len(first) == 0 || first[0] != byteOrderMark[0] {
		return
	}
	if mark, _ := b.in.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = b.in.Discard(len(byteOrderMark)) // the bytes are buffered
	}
}

// blockData returns the data of a block. If the data is a single line, it shares memory with the block.
func blockData(block []byte) (data []byte) {
	for line := range bytes.Lines(block) {
		value, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data:"))
		if !ok {
			continue
		}
		value = bytes.TrimPrefix(value, []byte(" "))
		if data == nil {
			data = value[:len(value):len(value)]
			continue
		}
		data = append(append(data, '\n'), value...)
	}
	return data
}

// An sseTap handles the messages in an SSE body before the SDK reads them.
type sseTap struct {
	io.Closer
	blocks *blockReader
	board  *tapState
	own    *call  // the call that the body answers; nil for others
	id     string // of own's request

	answered bool // the response to own has been read
	out      []byte
	err      error
}

func (t *sseTap) Read(p []byte) (int, error) {
	for len(t.out) == 0 {
		if t.err != nil {
			return 0, t.err
		}
		block, err := t.blocks.next()
		t.err = err
		t.out = t.handleBlock(block)
		t.recordEnd()
	}
	n := copy(p, t.out)
	t.out = t.out[n:]
	return n, nil
}

// handleBlock handles the message in a block and returns the data for the SDK. It changes the block only if the SDK
// would otherwise end the session.
func (t *sseTap) handleBlock(block []byte) []byte {
	data := blockData(block)
	if len(data) == 0 {
		if t.err != nil {
			return nil // a truncated line
		}
		return block
	}
	m, err := decodeMessage(data)
	if err != nil {
		if t.err == nil && t.own != nil {
			t.err = t.own.unusable(notMessage(err, data))
		}
		return nil
	}
	switch m := m.(type) {
	case *jsonrpc.Request:
		if !m.IsCall() {
			t.board.handleNotification(context.Background(), frame{m.Method, m.Params}, nil)
		}
	case *jsonrpc.Response:
		t.board.recordCapabilities(m.Result)
		if t.own != nil && idText(m.ID.Raw()) == t.id {
			t.answered = true
			if len(m.Result) > 0 && m.Error == nil {
				return fmt.Appendf(nil, "event: message\ndata: %s\n\n", t.own.storeResult(m.Result, t.id))
			}
		}
	}
	return block
}

// recordEnd records the reason a response body ended without a JSON-RPC response. The SDK receives only io.EOF.
func (t *sseTap) recordEnd() {
	if t.own == nil || t.err == nil {
		return
	}
	if !t.answered {
		t.own.fail(t.own.endError(t.err))
	}
	t.err = io.EOF
}

// endError returns the reason a response body ended without a JSON-RPC response.
func (c *call) endError(err error) error {
	switch {
	case err == io.EOF:
		return errStreamEnded
	case errors.As(err, new(*AnswerError)):
		return err
	case errors.Is(err, ErrTooLarge):
		return c.unusable(err)
	}
	return wrapConnectionError("the stream broke off", err)
}
