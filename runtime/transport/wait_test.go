package transport

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// waitCall is a call of the wait tool or of a read tool with a progress token.
func (m mode) waitCall(id, arguments string) string {
	params := `{"name":"events_wait","arguments":` + arguments + `}`
	if m.modern() {
		request := m.request(id, methodCall, params)
		return strings.Replace(request, `"_meta":{`, `"_meta":{"progressToken":"p",`, 1)
	}
	return m.request(id, methodCall, strings.TrimSuffix(params, "}")+`,"_meta":{"progressToken":"p"}}`)
}

// waitHeader names the tool, as the stateless revision demands.
var waitHeader = map[string]string{"Mcp-Name": "events_wait"}

// newWaitRig is a rig with the tools for clients that do not support events. What comes of each call of one and of
// each poll is told.
func newWaitRig(t testing.TB, o server.Options) (g *rig, begun, over chan error) {
	t.Helper()
	g = newRig(t, o)
	if err := g.es.AddWaitTool(); err != nil {
		t.Fatal(err)
	}
	if err := g.es.AddReadTools(readtool.Of(tickType("tick").Info)); err != nil {
		t.Fatal(err)
	}
	begun, over = make(chan error, 10), make(chan error, 10)
	g.srv.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method != methodCall && method != wire.MethodPoll {
				return next(ctx, method, req)
			}
			begun <- nil
			res, err := next(ctx, method, req)
			over <- err
			return res, err
		}
	})
	return g, begun, over
}

// POLL-9, V5: a call that waits ends at once when its client cancels it, and where the request is the call's whole life,
// when its connection ends; the server holds nothing for nobody, and a cancelled call is not answered.
func TestWaitEndsWithItsClient(t *testing.T) {
	inEveryMode(t, func(t *testing.T, m mode) {
		for _, how := range []string{"cancel", "abort"} {
			if how == "cancel" && m.http && m.modern() {
				continue // there a cancel is the abort
			}
			g, begun, over := newWaitRig(t, server.Options{})
			c := g.connect(m, HandlerOptions{})
			call := m.waitCall(`7`, `{"events":[{"name":"tick"}],"waitSeconds":55}`)
			response := make(chan string, 1)
			var answers *feed
			switch c := c.(type) {
			case *lineClient:
				answers = c.feed(`7`)
				c.send(call)
				recv(t, begun, "the call")
				if how == "cancel" {
					c.notify(methodCancelled, cancelOf(`7`))
				} else {
					c.w.Close()
				}
			case *httpClient:
				ctx, abort := context.WithCancel(context.Background())
				defer abort()
				go func() {
					if resp, err := c.do(ctx, http.MethodPost, call, waitHeader); err == nil {
						b, _ := io.ReadAll(resp.Body)
						resp.Body.Close()
						response <- string(b)
					}
				}()
				recv(t, begun, "the call")
				if how == "cancel" {
					c.notify(methodCancelled, cancelOf(`7`))
					if body := recv(t, response, "the end of the response"); body != "" {
						t.Errorf("the cancelled call is answered: %s", body)
					}
				} else {
					abort()
				}
			}
			err := recv(t, over, how)
			if err == nil {
				t.Errorf("%s: the call was answered", how)
			} else if strings.Contains(err.Error(), "context") { // ERR-4
				t.Errorf("%s: %v", how, err)
			}
			if c, ok := c.(*lineClient); ok && how == "cancel" {
				synctest.Wait()
				c.w.Close()
				if rest := answers.over(); len(slices.DeleteFunc(rest, func(m string) bool { return strings.Contains(m, "notifications/progress") })) > 0 {
					t.Errorf("the cancelled call is answered: %q", rest)
				}
			}
		}
	})
}

// T1: a client that may come back for its answer keeps its call, whether its connection ends before or after the SDK
// comes to the call; and the session's end ends it all the same.
func TestWaitIsResumable(t *testing.T) {
	for _, early := range []bool{true, false} {
		for _, end := range []string{"event", "delete"} {
			inBubble(t, fmt.Sprintf("early=%t,%s", early, end), func(t *testing.T) {
				g, begun, over := newWaitRig(t, server.Options{})
				if early {
					g.srv.AddReceivingMiddleware(whenGone(g))
				}
				m := modes[2]
				c := g.connect(m, HandlerOptions{Streamable: resumable()}).(*httpClient)
				ctx, abort := context.WithCancel(context.Background())
				read := make(chan struct{})
				go func() {
					defer close(read)
					if resp, err := c.do(ctx, http.MethodPost, m.waitCall(`7`, `{"events":[{"name":"tick"}],"waitSeconds":55}`), nil); err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				}()
				if !early {
					recv(t, begun, "the call")
				} else {
					synctest.Wait() // the request is with the server
				}
				abort()
				<-read
				if early {
					recv(t, begun, "the call")
				}
				select {
				case err := <-over:
					t.Fatalf("the call ended with its connection: %v", err)
				case <-time.After(time.Second):
				}
				if end == "event" {
					g.emit(1)
				} else if resp, err := c.do(context.Background(), http.MethodDelete, "", nil); err != nil {
					t.Fatal(err)
				} else {
					resp.Body.Close()
				}
				if err := recv(t, over, "the answer"); (err == nil) != (end == "event") {
					t.Error(err)
				}
			})
		}
	}
}

// whenGone holds calls of tools until their connection has ended.
func whenGone(g *rig) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == methodCall {
				gone := make(chan struct{})
				port.Of(g.es).CallerOf(ctx, req).AfterReply(func() { close(gone) })
				<-gone
			}
			return next(ctx, method, req)
		}
	}
}

// Progress comes every 10 s by the response of the call, before its answer; in every mode, and at the end of the server
// the call has its answer.
func TestWaitProgressAndEnd(t *testing.T) {
	for _, m := range modes {
		if !m.http {
			continue // the SDK's own in-memory transport is tried in package server
		}
		t.Run(m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, _, _ := newWaitRig(t, server.Options{})
				c := g.serve(m, NewHandler(g.es, HandlerOptions{}))
				c.header.Set("Mcp-Name", "events_wait") // as the stateless revision demands
				began := time.Now()
				f := c.sse(m.waitCall(`7`, `{"events":[{"name":"tick"}],"waitSeconds":55}`)) // whose headers come with the first message
				f.patient = time.Minute
				for i := 1; i <= 2; i++ {
					p := f.want("notifications/progress")
					if d := time.Since(began); d != time.Duration(i)*10*time.Second || string(member(p.params, "progressToken")) != `"p"` {
						t.Errorf("after %v: %s", d, p.params)
					}
				}
				g.emit(1)
				answer := f.want("")
				if !strings.Contains(string(member(answer.result, "structuredContent")), `"seq":1`) {
					t.Errorf("%s", answer.result)
				}
				cursor := string(member(member(answer.result, "structuredContent"), "cursor"))
				time.AfterFunc(15*time.Second, func() { _ = g.es.Shutdown(context.Background()) })
				f = c.sse(m.waitCall(`8`, `{"events":[{"name":"tick"}],"waitSeconds":55,"cursor":`+cursor+`}`))
				f.patient = time.Minute
				f.want("notifications/progress")
				if answer = f.want(""); string(member(member(answer.result, "structuredContent"), "cursor")) != cursor {
					t.Errorf("at the end %s", answer.result)
				}
			})
		})
	}
}

// POLL-9, SRV-6: a session that is deleted waits neither for a call that waits nor for a poll that is held.
func TestWaitDoesNotHoldASession(t *testing.T) {
	m := modes[2]
	for name, request := range map[string]func(cursor string) string{
		methodCall: func(string) string { return m.waitCall(`7`, `{"events":[{"name":"tick"}],"waitSeconds":55}`) },
		wire.MethodPoll: func(cursor string) string {
			return m.request(`7`, wire.MethodPoll, `{"name":"tick","timeoutMs":25000,"cursor":`+cursor+`}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, begun, over := newWaitRig(t, server.Options{})
			c := g.connect(m, HandlerOptions{}).(*httpClient)
			cursor := string(member(c.rpc(`6`, wire.MethodPoll, `{"name":"tick"}`).result, "cursor"))
			recv(t, begun, "the poll for a cursor")
			recv(t, over, "its end")
			send := func(method, body string) chan error {
				done := make(chan error, 1)
				go func() {
					resp, err := c.do(context.Background(), method, body, nil)
					if err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
					done <- err
				}()
				return done
			}
			answer := send(http.MethodPost, request(cursor))
			recv(t, begun, "the call")
			if err := recv(t, send(http.MethodDelete, ""), "the session's end"); err != nil {
				t.Error(err)
			}
			recv(t, over, "the call's end")
			recv(t, answer, "the response")
		})
	}
}
