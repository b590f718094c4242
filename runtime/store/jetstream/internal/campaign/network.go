package main

import (
	"net"
	"sync"
)

// A path is a relay from one process to a port of another. It can block bytes in one or both directions, like a
// partitioned network. Blocked bytes are delivered when the partition ends.
type path struct {
	ln          net.Listener
	to          string
	there, back gate // from the dialing side, and to it

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
	wg     sync.WaitGroup
}

// A gate passes bytes while it is open.
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

// newPath starts a relay path to an address.
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

// setBlocked blocks or unblocks the path in both directions.
func (p *path) setBlocked(shut bool) {
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
			both.Go(func() { relay(to, from, &p.there) })
			both.Go(func() { relay(from, to, &p.back) })
			both.Wait()
			p.forget(from, to)
		})
	}
}

// relay copies bytes until one side is closed, and then closes both.
func relay(to, from net.Conn, g *gate) {
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
	p.setBlocked(false)
	p.wg.Wait()
}
