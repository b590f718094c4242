package transport

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// script gives a line connection that reads text and writes into the result.
func script(text string, limit int) (*lineConn, *strings.Builder) {
	var out strings.Builder
	return newLineConn(io.NopCloser(strings.NewReader(text)), nopCloser{&out}, limit, 256<<10), &out
}

func readAll(t *testing.T, c *lineConn) (msgs []jsonrpc.Message, err error) {
	t.Helper()
	for {
		msg, err := c.Read(context.Background())
		if err != nil {
			return msgs, err
		}
		msgs = append(msgs, msg)
	}
}

// PUSH-2: an answer repeats the id's own bytes, and the next call with an equal id its own.
func TestLineIDs(t *testing.T) {
	c, out := script(`{"jsonrpc":"2.0","id":1.0,"method":"events/list"}`+"\n"+`{"jsonrpc":"2.0","id":12345678901234567890,"method":"events/list"}`+"\n"+
		`{"jsonrpc":"2.0","id":"a\u0062","method":"events/list"}`+"\n", 0)
	defer c.Close()
	msgs, err := readAll(t, c)
	if err != io.EOF || len(msgs) != 3 {
		t.Fatal(msgs, err)
	}
	for _, m := range msgs {
		id := m.(*jsonrpc.Request).Extra.(*lineCall).id
		if err := c.writeResponse(id, appendResponse(nil, id, "result", []byte(`{}`))); err != nil {
			t.Fatal(err)
		}
	}
	want := `{"jsonrpc":"2.0","id":1.0,"result":{}}` + "\n" + `{"jsonrpc":"2.0","id":12345678901234567890,"result":{}}` + "\n" + `{"jsonrpc":"2.0","id":"a\u0062","result":{}}` + "\n"
	if out.String() != want {
		t.Errorf("wrote %s", out)
	}
	if len(c.open) != 0 {
		t.Errorf("%d calls kept", len(c.open))
	}
}

// CAP-6: a line that is no message is an error of its own, and the connection goes on after it.
func TestLineErrors(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":"after","method":"ping"}`
	for name, row := range map[string]struct {
		line string
		code int64
		id   string
	}{
		"no JSON":       {"hello", -32700, "null"},
		"BOM":           {"\ufeff" + ping, -32700, "null"},
		"half":          {`{"jsonrpc":"2.0","id":1,"meth`, -32700, "null"},
		"two values":    {ping + ping, -32700, "null"},
		"trailing text": {ping + " x", -32700, "null"},
		"invalid UTF-8": {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", -32700, "null"},
		"too deep":      {`{"jsonrpc":"2.0","id":1,"method":"a","params":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`, -32700, "null"},
		"too long":      {`{"jsonrpc":"2.0","method":"` + strings.Repeat("x", 9000) + `"}`, -32700, "null"},
		"null":          {"null", -32600, "null"},
		"number":        {"5", -32600, "null"},
		"empty batch":   {"[]", -32600, "null"},
		"no message":    {"{}", -32600, "null"},
		"open batch":    {"[" + ping, -32700, "null"},
		"batch":         {"[" + ping + "]", -32600, "null"},
		"wrong jsonrpc": {`{"jsonrpc":"1.0","id":1,"method":"a"}`, -32600, "1"},
		"id true":       {`{"jsonrpc":"2.0","id":true,"method":"a"}`, -32600, "null"},
		"id object":     {`{"jsonrpc":"2.0","id":{},"method":"a"}`, -32600, "null"},
		"id too long":   {`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", maxID) + `","method":"a"}`, -32600, "null"},
		"id twice":      {`{"jsonrpc":"2.0","id":1,"method":"a","id":2}`, -32600, "null"},
		"method twice":  {`{"jsonrpc":"2.0","id":1.50,"method":"a","method":"a"}`, -32600, "1.50"},
		"method number": {`{"jsonrpc":"2.0","id":1,"method":1}`, -32600, "1"},
		"no method":     {`{"jsonrpc":"2.0","id":1}`, -32600, "null"},
	} {
		c, _ := script(row.line+"\n \r\n"+ping+"\r\n", 8192)
		_, err := c.Read(context.Background())
		var bad *lineError
		if !errors.As(err, &bad) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if env, ok := parseEnvelope(bad.response()); !ok || errorOf(t, env).Code != row.code || string(member(bad.response(), "id")) != row.id {
			t.Errorf("%s: answered by %s", name, bad.response())
		}
		if msgs, err := readAll(t, c); err != io.EOF || len(msgs) != 1 || msgs[0].(*jsonrpc.Request).Method != "ping" {
			t.Errorf("%s: then %v, %v", name, msgs, err)
		}
		c.Close()
	}
	// An answer is never answered, or two peers could do so for ever.
	c, _ := script(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`, 0)
	defer c.Close()
	if msgs, err := readAll(t, c); err != io.EOF || len(msgs) > 0 {
		t.Errorf("an error without an id: %v, %v", msgs, err)
	}
}

// A job whose waiter has left is not written, and one that fails ends the connection.
func TestOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failure error
		o := newOutbox(func(err error) { failure = err })
		stuck := make(chan struct{})
		o.post(func() error { <-stuck; return nil })
		ctx, cancel := context.WithCancel(context.Background())
		left := make(chan error, 1)
		written := false
		go func() { left <- o.send(ctx, func() error { written = true; return nil }) }()
		synctest.Wait()
		cancel()
		if err := <-left; err != context.Canceled {
			t.Errorf("send: %v", err)
		}
		close(stuck)
		synctest.Wait()
		if written {
			t.Error("written although nobody waited")
		}
		if err := o.send(context.Background(), func() error { return io.ErrClosedPipe }); err != io.ErrClosedPipe {
			t.Errorf("send: %v", err)
		}
		synctest.Wait()
		if failure != io.ErrClosedPipe {
			t.Errorf("failure %v", failure)
		}
		o.close()
		if err := o.send(context.Background(), func() error { return nil }); !errors.Is(err, errClosed) {
			t.Errorf("send after close: %v", err)
		}
	})
}

// stuckSink is a client that stops reading: writes block until it is closed.
type stuckSink struct {
	stuck  chan struct{} // closed: from now on writes block
	freed  chan struct{} // closed by Close
	passed func([]byte)
}

func (s *stuckSink) Write(p []byte) (int, error) {
	select {
	case <-s.stuck:
		<-s.freed
		return 0, io.ErrClosedPipe
	default:
		s.passed(p)
		return len(p), nil
	}
}

func (s *stuckSink) Close() error {
	select {
	case <-s.freed:
	default:
		close(s.freed)
	}
	return nil
}

// A sink that blocks does not block reading: a cancel is still heard and frees its stream, and Run
// still ends.
func TestStuckSink(t *testing.T) {
	for _, m := range modes[:2] {
		t.Run(m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, server.Options{})
				r, w := io.Pipe()
				sink := &stuckSink{stuck: make(chan struct{}), freed: make(chan struct{}), passed: func([]byte) {}}
				ctx, cancel := context.WithCancel(context.Background())
				ran := make(chan error, 1)
				go func() { ran <- Run(ctx, g.es, &mcp.IOTransport{Reader: r, Writer: sink}) }()
				send := func(s string) { io.WriteString(w, s+"\n") }
				if !m.modern() {
					send(initializeRequest(m.version))
					send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				}
				send(m.request(`1`, wire.MethodStream, `{"name":"tick"}`))
				send(m.request(`2`, wire.MethodStream, `{"name":"tick","arguments":{"channel":"x"}}`))
				synctest.Wait()
				close(sink.stuck)
				g.emit(1)
				send(m.request(`3`, methodListTools, ""))
				send(m.request(`3`, methodListTools, "")) // an id in flight: refused by the reading loop itself
				send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
				synctest.Wait()
				if len(g.ended) != 1 {
					t.Errorf("%d streams freed after a cancel, want 1", len(g.ended))
				}
				started := time.Now()
				cancel()
				if err := <-ran; err != context.Canceled {
					t.Errorf("Run: %v", err)
				}
				if d := time.Since(started); d > 4*time.Second {
					t.Errorf("Run took %v to end", d)
				}
				w.Close()
				g.stop()
			})
		})
	}
}

const methodListTools = "tools/list"

// Run ends when its context does, with the final result of every stream first; when the client
// closes the connection; and when the events server is shut down.
func TestRunEnds(t *testing.T) {
	for _, m := range modes[:2] {
		inBubble(t, m.name+"/context", func(t *testing.T) {
			g := newRig(t, server.Options{})
			c := g.stdio(m)
			f := c.stream(`1`, `{"name":"tick"}`)
			f.want(wire.NotificationActive)
			started := time.Now()
			c.cancel()
			f.want("")
			if err := recv(t, c.ran, "Run"); err != context.Canceled {
				t.Errorf("Run: %v", err)
			}
			c.ran <- nil // for the cleanup
			if d := time.Since(started); d > time.Second {
				t.Errorf("Run took %v to end", d)
			}
			recv(t, g.ended, "freed")
		})
		inBubble(t, m.name+"/client", func(t *testing.T) {
			g := newRig(t, server.Options{})
			c := g.stdio(m)
			f := c.stream(`1`, `{"name":"tick"}`)
			f.want(wire.NotificationActive)
			c.w.Close()
			if err := recv(t, c.ran, "Run"); err != nil {
				t.Errorf("Run: %v", err)
			}
			c.ran <- nil
			recv(t, g.ended, "freed")
		})
		inBubble(t, m.name+"/shutdown", func(t *testing.T) {
			g := newRig(t, server.Options{})
			c := g.stdio(m)
			f := c.stream(`1`, `{"name":"tick"}`)
			f.want(wire.NotificationActive)
			if err := g.es.Shutdown(context.Background()); err != nil {
				t.Fatal(err)
			}
			f.want("")
			if err := recv(t, c.ran, "Run"); err != nil {
				t.Errorf("Run: %v", err)
			}
			c.ran <- nil
		})
	}
}

// A handler of the author's that ignores its context does not keep Run.
func TestRunDoesNotWaitForDeafHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, server.Options{})
		deaf := make(chan struct{})
		mcp.AddTool(g.srv, &mcp.Tool{Name: "deaf"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			<-deaf
			return nil, nil, nil
		})
		c := g.stdio(modes[0])
		c.send(modes[0].request(`1`, "tools/call", `{"name":"deaf"}`))
		synctest.Wait()
		c.cancel()
		started := time.Now()
		<-c.ran
		if d := time.Since(started); d > 4*time.Second {
			t.Errorf("Run took %v to end", d)
		}
		c.ran <- nil
		close(deaf)
		synctest.Wait()
	})
}

// In-memory and logged connections carry streams as well (PUSH-8 on every message-based carrier).
func TestOtherConnections(t *testing.T) {
	for _, m := range modes[:2] {
		for _, kind := range []string{"in-memory", "logged"} {
			t.Run(m.name+"/"+kind, func(t *testing.T) {
				g := newRig(t, server.Options{})
				ctx, cancel := context.WithCancel(context.Background())
				var served mcp.Transport
				var log strings.Builder
				var w io.Writer
				var r *bufio.Reader
				if kind == "in-memory" {
					a, b := mcp.NewInMemoryTransports()
					served = a
					conn, err := b.Connect(ctx)
					if err != nil {
						t.Fatal(err)
					}
					defer conn.Close()
					w, r = overConnection(conn)
				} else {
					inR, inW := io.Pipe()
					outR, outW := io.Pipe()
					served = &mcp.LoggingTransport{Transport: &mcp.IOTransport{Reader: inR, Writer: outW}, Writer: &log}
					w, r = inW, bufio.NewReader(outR)
				}
				ran := make(chan error, 1)
				go func() { ran <- Run(ctx, g.es, served) }()
				send := func(s string) { io.WriteString(w, s+"\n") }
				next := func() envelope {
					line, err := r.ReadBytes('\n')
					if err != nil {
						t.Fatal(err)
					}
					env, _ := parseEnvelope(line)
					return env
				}
				if !m.modern() {
					send(initializeRequest(m.version))
					next()
					send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				}
				send(m.request(`"s"`, wire.MethodStream, `{"name":"tick"}`))
				if active := next(); active.method != wire.NotificationActive || subscriptionID(active) != `"s"` {
					t.Errorf("first %s %s", active.method, active.params)
				}
				g.emit(1)
				if ev := next(); ev.method != wire.NotificationEvent {
					t.Errorf("second %s", ev.method)
				}
				send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s"}}`)
				recv(t, g.ended, "freed")
				send(m.request(`5`, wire.MethodStream, `{"name":"tick"}`))
				if active := next(); subscriptionID(active) != `5` {
					t.Errorf("after a cancel: %s %s", active.method, active.params)
				}
				cancel()
				if final := next(); final.result == nil || string(final.id) != `5` {
					t.Errorf("final %s %s", final.id, final.error)
				}
				recv(t, ran, "Run")
				if kind == "logged" && !strings.Contains(log.String(), wire.NotificationActive) {
					t.Errorf("log %s", log.String())
				}
			})
		}
	}
}

// overConnection reads and writes a connection of the SDK's as lines.
func overConnection(conn mcp.Connection) (io.Writer, *bufio.Reader) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	go func() {
		scan := bufio.NewScanner(inR)
		for scan.Scan() {
			msg, err := jsonrpc.DecodeMessage(scan.Bytes())
			if err != nil || conn.Write(context.Background(), msg) != nil {
				return
			}
		}
	}()
	go func() {
		for {
			msg, err := conn.Read(context.Background())
			if err != nil {
				outW.Close()
				inR.Close()
				return
			}
			b, _ := jsonrpc.EncodeMessage(msg)
			outW.Write(append(b, '\n'))
		}
	}()
	return inW, bufio.NewReader(outR)
}
