package operate

import (
	"fmt"
	"io"
	"strings"
)

const (
	// barWidth is the width of the progress bar. lineEvery is the number of items per line of progress if no bar can be
	// drawn.
	barWidth  = 30
	lineEvery = 100
)

// A progress reports the progress of a verb for many subscriptions.
type progress struct {
	w     io.Writer
	bar   bool
	verb  string
	total int // counted beforehand; it may have grown since
	drawn bool
}

// step records that another item has been processed.
func (p *progress) step(s *summary) {
	n := s.items()
	total := max(p.total, n)
	switch {
	case p.bar:
		p.drawn = true
		fmt.Fprintf(p.w, "\r\x1b[K[%-*s] %d of %d, %d failed", barWidth, strings.Repeat("#", barWidth*n/total), n, total, s.Failed)
	case n%lineEvery == 0:
		fmt.Fprintf(p.w, "%s: %d of %d, %d failed\n", p.verb, n, total, s.Failed)
	}
}

// endLine terminates the line of the progress bar.
func (p *progress) endLine() {
	if p.drawn {
		fmt.Fprintln(p.w)
	}
}
