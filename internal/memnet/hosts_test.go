package memnet

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
)

// Each host has a listener, and clients verify its certificate.
func TestHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hosts Hosts
		var servers []*http.Server
		for _, host := range []string{"one.test", "two.test", "127.0.0.1", "two.example"} {
			server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, host) })}
			l := tls.NewListener(hosts.Listen(host), ServerTLS())
			go server.Serve(l)
			servers = append(servers, server)
		}
		transport := &http.Transport{DialContext: hosts.DialContext, TLSClientConfig: ClientTLS()}
		client := &http.Client{Transport: transport}
		for _, host := range []string{"one.test", "two.test", "127.0.0.1"} {
			res, err := client.Get("https://" + host + ":8443")
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(res.Body); string(got) != host || err != nil {
				t.Errorf("%s: %q, %v", host, got, err)
			}
			res.Body.Close()
		}
		_, err := client.Get("https://two.example")
		if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
			t.Errorf("two.example: %v", err)
		}
		_, err = client.Get("https://three.test")
		if e, ok := errors.AsType[*net.DNSError](err); !ok || !e.IsNotFound {
			t.Errorf("three.test: %v", err)
		}
		transport.CloseIdleConnections()
		for _, s := range servers {
			s.Close()
		}
		if _, err := hosts.DialContext(context.Background(), "tcp", "one.test:80"); !errors.Is(err, net.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}
