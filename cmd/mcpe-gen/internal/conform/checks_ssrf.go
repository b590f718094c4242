package conform

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// ssrfChecks ask for callbacks at addresses that no callback may have. None of them is one at which
// clouds serve their metadata: a server that does wrong would hand its credentials out.
var ssrfChecks = []check{
	{id: "SSRF-1", title: "a callback at a private address is InvalidParams",
		needs: needHook | needSSRF, run: checkPrivate},
	{id: "SSRF-1", title: "a callback on loopback is refused without a connection",
		needs: needHook | needSSRF, run: checkLoopback},
}

// privateHosts are one of each block, in the spellings that are overlooked.
var privateHosts = []string{
	"10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "0.0.0.0", "198.18.0.1",
	"[::1]", "[fc00::1]", "[fe80::1]", "[::ffff:10.0.0.1]", "[64:ff9b::a00:1]", "[2002:a00:1::1]",
	"localhost", "0x7f000001", "2130706433", "127.1",
}

// refusesHost tries a callback on a host.
func (r *run) refusesHost(ctx context.Context, host string) error {
	url := "https://" + host + "/mcpe-gen-conform"
	return r.refusesDelivery(ctx, wire.InvalidParams, fmt.Sprintf("the callback %q", url),
		map[string]any{"mode": wire.ModeWebhook, "url": url, "secret": r.callback(echoes).secret})
}

func checkPrivate(ctx context.Context, r *run) error {
	for _, host := range privateHosts {
		if err := r.refusesHost(ctx, host+":1"); err != nil {
			return err
		}
	}
	return nil
}

// checkLoopback listens where the callback would be; that sees a connection when the server runs on
// this machine.
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
	err = r.refusesHost(ctx, "127.0.0.1:"+port)
	l.Close()
	<-done
	if connected.Load() {
		return r.last.wrong("no connection to 127.0.0.1", "one")
	}
	return err
}
