package main

import (
	"net"
	"sync"
)

// A path leads from one process to a port of another. It is a relay that can hold back bytes in one direction or
// both, as a partitioned network does. Held bytes arrive when the partition ends.
type path struct {
	ln          net.Listener
	to          string
	there, back gate // from the dialing side, and to it

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
	wg     sync.WaitGroup
}

// A gate lets bytes through while it is open.
type gate struct {
	mu   sync.Mutex
	shut chan struct{} // closed when it opens; nil while it is open
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case shut && g.shut == nil:
		g.shut = make(chan struct{})
	case !shut && g.shut != nil:
		close(g.shut)
		g.shut = nil
	}
}

func (g *gate) wait() {
	for {
		g.mu.Lock()
		shut := g.shut
		g.mu.Unlock()
		if shut == nil {
			return
		}
		<-shut
	}
}

// newPath opens a path to an address.
func newPath(to string) (*path, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &path{ln: ln, to: to, conns: map[net.Conn]struct{}{}}
	p.wg.Go(p.accept)
	return p, nil
}

func (p *path) addr() string { return p.ln.Addr().String() }

// hold shuts or opens the path in both directions.
func (p *path) hold(shut bool) {
	p.there.set(shut)
	p.back.set(shut)
}

func (p *path) accept() {
	for {
		from, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() {
			defer from.Close()
			p.there.wait()
			to, err := net.Dial("tcp", p.to)
			if err != nil {
				return
			}
			defer to.Close()
			if !p.keep(from, to) {
				return
			}
			var both sync.WaitGroup
			both.Go(func() { pass(to, from, &p.there) })
			both.Go(func() { pass(from, to, &p.back) })
			both.Wait()
			p.forget(from, to)
		})
	}
}

// pass copies until one side ends, and then closes both.
func pass(to, from net.Conn, g *gate) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		g.wait()
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *path) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = struct{}{}
	}
	return !p.closed
}

func (p *path) forget(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
	}
}

func (p *path) close() {
	p.ln.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.hold(false)
	p.wg.Wait()
}
