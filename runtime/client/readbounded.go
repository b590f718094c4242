package client

import (
	"errors"
	"io"
)

// A pieceBuffer collects a body of unknown size in pieces. Unlike a growing slice, it does not copy data repeatedly. It
// allocates at most the limit for an oversized body, and at most twice the size of any other body.
type pieceBuffer struct {
	pieces [][]byte
	size   int64
}

// maxPiece limits the size of a piece and thus the unused space in the last one.
const maxPiece = 1 << 20

// add appends a copy of p.
func (g *pieceBuffer) add(p []byte) {
	for len(p) > 0 {
		last := len(g.pieces) - 1
		if last < 0 || len(g.pieces[last]) == cap(g.pieces[last]) {
			g.pieces = append(g.pieces, make([]byte, 0, max(len(p), int(min(g.size, maxPiece)))))
			last++
		}
		n := min(len(p), cap(g.pieces[last])-len(g.pieces[last]))
		g.pieces[last] = append(g.pieces[last], p[:n]...)
		g.size += int64(n)
		p = p[n:]
	}
}

// bytes returns the collected bytes.
func (g *pieceBuffer) bytes() []byte {
	switch len(g.pieces) {
	case 0:
		return nil
	case 1:
		return g.pieces[0]
	}
	whole := make([]byte, 0, g.size)
	for _, p := range g.pieces {
		whole = append(whole, p...)
	}
	return whole
}

// readBounded reads r until EOF. It returns an error after limit bytes, counted after decompression.
func readBounded(r io.Reader, limit int64) ([]byte, error) {
	var g pieceBuffer
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		g.add(buf[:n])
		switch {
		case g.size > limit:
			return nil, errTooLarge("the body", limit)
		case errors.Is(err, io.EOF):
			return g.bytes(), nil
		case err != nil:
			return g.bytes(), err
		}
	}
}
