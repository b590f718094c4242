package client

import (
	"errors"
	"io"
)

// A gathering collects what comes piece by piece. A slice that grows is copied again and again; here what is
// too large costs its bound once, and what is not twice its size.
type gathering struct {
	pieces [][]byte
	size   int64
}

// maxPiece bounds the pieces, and so what may stay unused in the last one.
const maxPiece = 1 << 20

// add copies p.
func (g *gathering) add(p []byte) {
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

// bytes is all of it.
func (g *gathering) bytes() []byte {
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

// readBounded reads to the end of what may have limit bytes, unpacked.
func readBounded(r io.Reader, limit int64) ([]byte, error) {
	var g gathering
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
