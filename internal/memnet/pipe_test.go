package memnet

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Both ends of a TLS connection that close it in the same moment do not wait for each other.
func TestBothCloseTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := ClientTLS()
		config.ServerName = "server.test"
		a, b := Pipe()
		server, client := tls.Server(a, ServerTLS()), tls.Client(b, config)
		go server.Handshake()
		if err := client.Handshake(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var both sync.WaitGroup
		both.Go(func() { server.Close() })
		both.Go(func() { client.Close() })
		both.Wait()
		if took := time.Since(began); took != 0 {
			t.Errorf("they took %v", took)
		}
	})
}

// A write waits when nobody reads, and what was written is read after the end.
func TestBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe()
		a.SetWriteDeadline(time.Now().Add(time.Second))
		if n, err := a.Write(make([]byte, bufferSize+1)); n != bufferSize || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("wrote %d, %v", n, err)
		}
		a.Close()
		if got, err := io.ReadAll(b); len(got) != bufferSize || err != nil {
			t.Errorf("read %d, %v", len(got), err)
		}
		if _, err := b.Write([]byte("x")); err == nil {
			t.Error("nobody reads what is written")
		}
		c, d := Pipe()
		c.Write(bytes.Repeat([]byte("x"), 10))
		d.Close()
		if _, err := d.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("read from a closed end: %v", err)
		}
		c.Close()
	})
}

// A deadline ends a wait that has begun, and one that is taken back does not.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe()
		time.AfterFunc(time.Minute, func() { a.SetDeadline(time.Now()) })
		began := time.Now()
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		a.SetDeadline(time.Now().Add(time.Second))
		a.SetDeadline(time.Time{})
		time.AfterFunc(time.Minute, func() { b.Write([]byte("x")) })
		if n, err := a.Read(make([]byte, 2)); n != 1 || err != nil {
			t.Errorf("read %d, %v", n, err)
		}
		a.Close()
		b.Close()
	})
}

// net/http says with a deadline in the past that a read is to end, at each request. It sets no timer (CONTRIBUTING.md).
func TestDeadlineInThePast(t *testing.T) {
	h := newHalf()
	h.set(&h.reading, time.Unix(1, 0))
	if _, err := h.read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || h.reading.timer != nil {
		t.Errorf("%v, with timer %v", err, h.reading.timer)
	}
}
