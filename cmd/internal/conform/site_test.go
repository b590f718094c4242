package conform

import (
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/wrongserver"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/internal/memnet"
)

const token, other = "the-token-of-the-test", "the-other-token-of-the-test"

// hookHost is where the callbacks are.
const hookHost = "hook.test"

// A site is the network of a bubble.
type site struct {
	memnet.Hosts
	t *testing.T
}

// options returns the options to judge a server over HTTP, which ends with the test.
func (n *site) options(server http.Handler) Options {
	const host = "server.test"
	web, l, served := &http.Server{Handler: server}, n.Listen(host), make(chan struct{})
	go func() {
		defer close(served)
		_ = web.Serve(l)
	}()
	n.t.Cleanup(func() {
		synctest.Wait() // handlers that end are no longer in the way
		web.Close()
		<-served
	})
	return Options{Target: peer.Target{URL: "http://" + host, Token: token}, Wait: 20 * time.Second, AllowQuiet: true, dial: n.DialContext,
		loopback: func() (net.Listener, error) { return n.Listen("127.0.0.1"), nil }}
}

// door returns the receiver of callbacks at a host.
func (n *site) door(host string) *peer.Door {
	return &peer.Door{Listener: n.Listen(host), TLS: memnet.ServerTLS(), URL: "https://" + host}
}

// wrongOptions returns those of a wrong server that calls callbacks at hookHost.
func (n *site) wrongOptions(fault string) wrongserver.Options {
	transport := &http.Transport{DialContext: n.DialContext, TLSClientConfig: memnet.ClientTLS()}
	n.t.Cleanup(transport.CloseIdleConnections)
	return wrongserver.Options{Fault: fault, Token: token, Other: other, AllowHost: hookHost, Client: &http.Client{Transport: transport},
		Interval: time.Second, Heartbeat: 3 * time.Second, Retry: 2 * time.Second}
}

// wrong starts the wrong server with the options and returns it. It ends with the test.
func (n *site) wrong(o wrongserver.Options) *wrongserver.Server {
	s := wrongserver.New(o)
	n.t.Cleanup(s.Close)
	return s
}

// process returns how a server is started that speaks with lines.
func (n *site) process(s *wrongserver.Server) func() *process {
	return func() *process {
		in, theirIn := memnet.Pipe()
		out, theirOut := memnet.Pipe()
		p := &process{stdin: in, stdout: out, exited: make(chan struct{}), interrupt: func() { n.t.Error("it goes on after the end of its input") },
			kill: func() {}}
		go func() {
			defer close(p.exited)
			s.ServeStdio(theirIn, theirOut)
			theirIn.Close()
			theirOut.Close()
		}()
		return p
	}
}
