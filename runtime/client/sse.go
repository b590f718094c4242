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

// blocks reads an SSE body block by block.
type blocks struct {
	in    *bufio.Reader
	limit int64 // of one block
	begun bool
}

func newBlocks(body io.Reader, limit int64) *blocks {
	return &blocks{in: bufio.NewReaderSize(body, 16<<10), limit: limit}
}

// next returns the next block: the lines up to an empty line, or, with an error, up to the end of the body.
func (b *blocks) next() ([]byte, error) {
	if !b.begun {
		b.begun = true
		b.skipMark()
	}
	var g gathering
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

// byteOrderMark may precede an event stream and is not part of its first line.
const byteOrderMark = "\ufeff"

// skipMark discards a byte order mark. If the first byte is not the mark's, it does not wait for more.
func (b *blocks) skipMark() {
	if first, _ := b.in.Peek(1); len(first) == 0 || first[0] != byteOrderMark[0] {
		return
	}
	if mark, _ := b.in.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = b.in.Discard(len(byteOrderMark)) // the bytes are buffered
	}
}

// dataOf returns the data of a block. If it is a single line it shares the block's memory.
func dataOf(block []byte) (data []byte) {
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

// An sseTap passes the messages of an SSE body to the board before the SDK reads them.
type sseTap struct {
	io.Closer
	blocks *blocks
	board  *board
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
		t.out = t.pass(block)
		t.over()
	}
	n := copy(p, t.out)
	t.out = t.out[n:]
	return n, nil
}

// pass passes one block to the board. It returns what the SDK reads: the block, unless the SDK would end the session
// because of it.
func (t *sseTap) pass(block []byte) []byte {
	data := dataOf(block)
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
			t.board.take(context.Background(), frame{m.Method, m.Params}, nil)
		}
	case *jsonrpc.Response:
		t.board.observe(m.Result)
		if t.own != nil && idText(m.ID.Raw()) == t.id {
			t.answered = true
			if len(m.Result) > 0 && m.Error == nil {
				return fmt.Appendf(nil, "event: message\ndata: %s\n\n", t.own.answered(m.Result, t.id))
			}
		}
	}
	return block
}

// over records why a response body ended without a JSON-RPC response. The SDK only sees its end.
func (t *sseTap) over() {
	if t.own == nil || t.err == nil {
		return
	}
	if !t.answered {
		t.own.fail(t.own.ended(t.err))
	}
	t.err = io.EOF
}

// ended returns why a response body ended without a JSON-RPC response.
func (c *call) ended(err error) error {
	switch {
	case err == io.EOF:
		return errStreamEnded
	case errors.As(err, new(*AnswerError)):
		return err
	case errors.Is(err, ErrTooLarge):
		return c.unusable(err)
	}
	return brokeOff("the stream broke off", err)
}
