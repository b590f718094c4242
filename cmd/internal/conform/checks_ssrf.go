package conform

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// ssrfChecks subscribe callbacks at addresses that a server must reject. The metadata addresses of cloud providers are
// not among them because a faulty server would disclose its credentials.
var ssrfChecks = []check{
	{name: "ssrf-private", id: "SSRF-1", title: "A callback at a private address fails with InvalidParams",
		needs: needHook | needSSRF, run: checkPrivate},
	{name: "ssrf-loopback", id: "SSRF-1", title: "The server refuses a callback on loopback without a connection",
		needs: needHook | needSSRF, run: checkLoopback},
}

// privateHosts contains a host in each private address block, including spellings that filters overlook.
var privateHosts = []string{
	"10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "0.0.0.0", "198.18.0.1",
	"[::1]", "[fc00::1]", "[fe80::1]", "[::ffff:10.0.0.1]", "[64:ff9b::a00:1]", "[2002:a00:1::1]",
	"localhost", "0x7f000001", "2130706433", "127.1",
}

// expectHostRefused checks that the server rejects a callback on the host.
func (r *run) expectHostRefused(ctx context.Context, host string) error {
	url := "https://" + host + "/mcpe-gen-conform"
	err := r.expectDeliveryRefused(ctx, wire.InvalidParams,
		map[string]any{"mode": wire.ModeWebhook, "url": url, "secret": r.newCallback(echoes).secret})
	if x := r.lastExchange; x != nil && isKind(x, wire.ResourceExhausted) {
		return errChallengesLimited
	}
	return err
}

func checkPrivate(ctx context.Context, r *run) error {
	for _, host := range privateHosts {
		if err := r.expectHostRefused(ctx, host+":1"); err != nil {
			return err
		}
	}
	return nil
}

// checkLoopback listens on the callback's loopback address and checks that the server does not connect to it. It
// detects a connection only if the server runs on the same machine.
func checkLoopback(ctx context.Context, r *run) error {
	listen := r.o.loopback
	if listen == nil {
		listen = func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
	}
	l, err := listen()
	if err != nil {
		return skipf("cannot listen on loopback: %v", err)
	}
	var connected atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			connected.Store(true)
			c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	err = r.expectHostRefused(ctx, "127.0.0.1:"+port)
	l.Close()
	<-done
	if connected.Load() {
		return r.lastExchange.violation("no connection to 127.0.0.1", "one")
	}
	return err
}
