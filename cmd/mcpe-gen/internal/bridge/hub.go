package bridge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/config"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/inbox"
)

const (
	// maxWindows is the maximum number of windows per state directory.
	maxWindows = 32
	// maxWindowID is the maximum length of a window's ID.
	maxWindowID = 32
	// maxRequest is the maximum size of a message from a window.
	maxRequest = 1 << 20
	// maxAbsence is how long the hub keeps the reading position of a disconnected window. A live window attaches to the
	// next hub much sooner, and a killed window never does. absenceInterval is how often the hub checks for absent
	// windows.
	maxAbsence      = 30 * time.Second
	absenceInterval = 10 * time.Second
)

// A hub serves the windows of a state directory. It serves those of other processes over the socket, and the window of
// its own process over a pipe.
type hub struct {
	e *engine
	// servers and settings are digests of the configuration.
	servers, settings string

	ctx   context.Context // done when the hub stops
	end   context.CancelFunc
	parts sync.WaitGroup

	positions sync.Mutex // held while a reading position is opened or closed, which writes to the disk

	mu     sync.Mutex
	ended  bool
	guests map[string]*guest    // connected guests
	away   map[string]time.Time // readers without a connection, with the time of their disconnection
}

func newHub(e *engine) *hub {
	h := &hub{e: e, guests: map[string]*guest{}, away: map[string]time.Time{}}
	h.servers, h.settings = configDigests(e.c)
	h.ctx, h.end = context.WithCancel(context.Background())
	for _, name := range e.state.box.Readers() {
		h.away[name] = time.Now() // windows of an earlier hub
	}
	h.parts.Go(h.forgetAbsent)
	return h
}

// configDigests returns a digest of the configured servers, including the sources of their tokens, and a digest of the
// other settings that all windows share.
func configDigests(c *config.Config) (servers, settings string) {
	digest := func(of any) string {
		raw, err := json.Marshal(of)
		if err != nil {
			panic(err) // only strings, numbers and JSON that was parsed
		}
		sum := sha256.Sum256(raw)
		return hex.EncodeToString(sum[:])
	}
	return digest(c.Servers), digest([]any{c.Subscriptions, c.Allow, c.Exec, c.CatchUp, c.Loop, c.Limits})
}

// accept serves connections to the socket until the hub stops.
func (h *hub) accept(l net.Listener) {
	h.parts.Go(func() {
		<-h.ctx.Done()
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			h.e.printMessage("closing the socket: %v", err)
		}
	})
	h.parts.Go(func() {
		for {
			conn, err := l.Accept()
			switch {
			case h.ctx.Err() != nil:
				if err == nil {
					conn.Close()
				}
				return
			case err != nil: // such as too many open files
				h.e.printMessage("accepting another window: %v", err)
				select {
				case <-time.After(time.Second):
				case <-h.ctx.Done():
				}
			default:
				h.serve(conn)
			}
		}
	})
}

// serve serves a window until its connection or the hub is closed.
func (h *hub) serve(conn net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		conn.Close()
		return
	}
	h.parts.Go(func() {
		defer context.AfterFunc(h.ctx, func() { conn.Close() })()
		defer conn.Close()
		g := &guest{h: h, e: h.e}
		session, err := g.newServer().Connect(h.ctx, &mcp.IOTransport{Reader: conn, Writer: conn, MaxLineLength: maxRequest}, nil)
		if err == nil {
			err = session.Wait()
		}
		g.disconnect()
		if err != nil && h.ctx.Err() == nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) && !errors.Is(err, mcp.ErrConnectionClosed) {
			h.e.printMessage("the connection of a window: %v", err)
		}
	})
}

// welcome registers a window.
func (h *hub) welcome(window string, g *guest) (*inbox.Reader, error) {
	h.mu.Lock()
	before := h.guests[window]
	if before == nil && len(h.guests) >= maxWindows {
		h.mu.Unlock()
		return nil, fmt.Errorf("%d windows have this state, and more are not served; name another directory with --state", maxWindows)
	}
	h.guests[window] = g
	delete(h.away, window)
	h.mu.Unlock()
	if before != nil {
		before.disconnect() // a connection that ended without leave
	}
	h.positions.Lock()
	defer h.positions.Unlock()
	r, err := h.e.state.box.Reader(window)
	if err != nil {
		h.recordDisconnect(window, g)
		return nil, fmt.Errorf("keeping the reading position of the window: %w", err)
	}
	return r, nil
}

// recordDisconnect records that the connection to a window has been lost.
func (h *hub) recordDisconnect(window string, g *guest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.guests[window] == g {
		delete(h.guests, window)
		h.away[window] = time.Now()
	}
}

// windowCount returns the number of connected windows.
func (h *hub) windowCount() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.guests)
}

// forgetAbsent periodically deletes the reading positions of windows that do not return.
func (h *hub) forgetAbsent() {
	tick := time.NewTicker(absenceInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-h.ctx.Done():
			return
		}
		for _, window := range h.absentWindows() {
			if err := h.forgetWindow(window); err != nil {
				h.e.printMessage("forgetting the reading position of a window that is gone: %v", err)
			}
		}
	}
}

// absentWindows returns the windows that have been disconnected for too long.
func (h *hub) absentWindows() (windows []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for window, since := range h.away {
		if time.Since(since) > maxAbsence {
			windows = append(windows, window)
		}
	}
	return windows
}

// forgetWindow deletes the reading position of a disconnected window.
func (h *hub) forgetWindow(window string) error {
	h.positions.Lock()
	defer h.positions.Unlock()
	h.mu.Lock()
	_, away := h.away[window]
	delete(h.away, window)
	h.mu.Unlock()
	if !away {
		return nil // it has returned
	}
	r, err := h.e.state.box.Reader(window)
	if err != nil {
		return err
	}
	return r.Close()
}

// stop closes the hub and its connections.
func (h *hub) stop() {
	h.mu.Lock()
	h.ended = true
	h.mu.Unlock()
	h.end()
	h.parts.Wait()
}
