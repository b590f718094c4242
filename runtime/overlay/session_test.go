package overlay

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/callbacks"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
)

// ended reports whether a stream ended, once everything that can happen without time has happened.
func ended(all <-chan string) bool {
	synctest.Wait()
	select {
	case <-all:
		return true
	default:
		return false
	}
}

// D14: in a session of next, a call ends when its client cancels it, even if the cancel overtakes it, and when next has
// ended the session.
func TestSessionCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, accepting(nil), setup{})
		one, two := b.open("s1", "7"), b.open("s2", "7")
		if got := text(b.post(`{"jsonrpc":"2.0","id":7.0,"method":"events/list"}`, "Mcp-Session-Id", "s1")); !strings.Contains(got, "/id is in use") {
			t.Error(got)
		}
		cancel := func(id, session string, headers ...string) {
			b.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`, append(headers, "Mcp-Session-Id", session)...)
		}
		if cancel("7", "s1", "Authorization", "Bearer other"); ended(one) {
			t.Error("another caller cancelled the call")
		}
		if cancel("7.0", "s1"); !ended(one) {
			t.Error("the call was not cancelled")
		}
		three := b.open("s3", "1")
		b.do(t.Context(), http.MethodDelete, "", "Mcp-Session-Id", "s2")
		if !ended(two) || ended(three) {
			t.Error("the session's call, and no other, ends with the session")
		}
		cancel("9", "s3")
		if got := text(b.post(`{"jsonrpc":"2.0","id":9,"method":"events/stream","params":{"name":"tick"}}`, "Mcp-Session-Id", "s3")); got != "" {
			t.Errorf("a call after its cancel: %q", got)
		}
	})
}

// A cancel and a DELETE that next refuses have no effect.
func TestRefusedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); r.Method == http.MethodDelete || strings.Contains(string(body), "cancelled") {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			answering(200, "application/json", accepted)(w, r)
		}), setup{})
		one := b.open("s", "7")
		b.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, "Mcp-Session-Id", "s")
		b.do(t.Context(), http.MethodDelete, "", "Mcp-Session-Id", "s")
		if ended(one) {
			t.Error("the call ended")
		}
	})
}

// AUTH-2: open streams ask next again, those of a session once at each heartbeat. A refusal ends them with their final
// result. A next that is overloaded or does not answer ends nothing.
func TestRecheck(t *testing.T) {
	for _, c := range []struct {
		session string
		modern  bool
		trusted bool
		every   time.Duration // 0: never asked again
	}{
		{"s", false, false, 15 * time.Second},
		{"", false, false, 5 * time.Minute},
		{"", true, false, 5 * time.Minute},
		{"s", false, true, 0},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var status atomic.Int32
				status.Store(200)
				b := newBed(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Authorization") != "Bearer t" {
						t.Error("a question without the token")
					}
					if status.Load() == 0 {
						panic(http.ErrAbortHandler)
					}
					answering(int(status.Load()), "application/json", accepted)(w, r)
				}), setup{options: Options{Trusted: c.trusted}})
				token := []string{"Authorization", "Bearer t"}
				open := func(id string) <-chan string {
					if c.modern {
						return rest(t, b.modern("events/stream", "events/stream", `"name":"tick"`, token...))
					}
					return b.open(c.session, id, token...)
				}
				one, streams := open("1"), 1
				if c.session != "" { // they share the question
					two := open("2")
					defer func() {
						if !ended(two) && !c.trusted {
							t.Error("the other stream of the session is open")
						}
					}()
					streams = 2
				}
				synctest.Wait()
				if c.trusted {
					if time.Sleep(time.Hour); ended(one) || b.asked.Load() != 0 {
						t.Errorf("next was asked %d times", b.asked.Load())
					}
					return
				}
				time.Sleep(3 * c.every)
				if synctest.Wait(); b.asked.Load() != int32(streams+3) || ended(one) {
					t.Errorf("next was asked %d times", b.asked.Load())
				}
				for _, temporary := range []int32{503, 429, 0} {
					status.Store(temporary)
					if time.Sleep(c.every); ended(one) {
						t.Errorf("%d ended the stream", temporary)
					}
				}
				status.Store(401)
				time.Sleep(c.every)
				synctest.Wait()
				select {
				case got := <-one:
					if !strings.Contains(got, `"result":{`) || strings.Contains(got, "terminated") {
						t.Errorf("it ended with %q", got)
					}
				default:
					t.Error("the stream is open")
				}
				asked := b.asked.Load()
				if time.Sleep(time.Hour); b.asked.Load() != asked {
					t.Error("next is asked for a stream that has ended")
				}
			})
		})
	}
}

// D2: error codes are those that the session has declared.
func TestDeclaredSessions(t *testing.T) {
	const declaring = `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"extensions":{"io.modelcontextprotocol/events":{}}},"clientInfo":{"name":"c","version":"1"}}}`
	ids := 0
	b := newBed(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ids++
		answering(200, "application/json", accepted, "Mcp-Session-Id", fmt.Sprint("s", ids))(w, r)
	}), setup{server: server.Options{Codes: server.CodesAuto}})
	b.post(declaring)  // s1
	b.post(initialize) // s2
	code := func(session string) (code int64) {
		m, _ := parse([]byte(text(b.post(`{"jsonrpc":"2.0","id":1,"method":"events/poll","params":{"name":"nope"}}`, "Mcp-Session-Id", session))))
		return errorCode(m.Error)
	}
	one, two := code("s1"), code("s2")
	if one == two {
		t.Errorf("both sessions have %d", one)
	}
	for range 2 * maxDeclared {
		ids++
		b.h.sessions.declare(fmt.Sprint("t", ids))
	}
	if got := code("s1"); got != two {
		t.Errorf("a session that was forgotten has %d", got)
	}
}

// LIST-5: list_changed comes between two events of next, never within one.
func TestListChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan string)
		b := newBed(t, accepting(told), setup{})
		resp := b.do(t.Context(), http.MethodGet, "", "Mcp-Session-Id", "s")
		lines := bufio.NewReader(resp.Body)
		read := func(want string) {
			t.Helper()
			got := make([]byte, len(want))
			if _, err := io.ReadFull(lines, got); err != nil || string(got) != want {
				t.Errorf("%q %v, want %q", got, err, want)
			}
		}
		const changed = "event: message\ndata: " + `{"jsonrpc":"2.0","method":"notifications/events/list_changed","params":{}}` + "\n\n"
		b.register("first")
		read(changed)
		for _, end := range []string{"\n", "\r\n", "\r"} {
			told <- "id: 1" + end + "data: {\"half\":"
			synctest.Wait()
			b.register("more" + strings.Repeat("x", len(end)) + fmt.Sprint(end[0]))
			synctest.Wait()
			told <- "true}" + end
			synctest.Wait()
			told <- end
			read("id: 1" + end + "data: {\"half\":true}" + end + end + changed)
		}
		time.Sleep(15 * time.Second)
		read(":\n\n")
	})
}

// A listen request for both servers' notifications gets both, and one that next ends at once stays open.
func TestListen(t *testing.T) {
	for _, others := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				filter := `{}`
				if others {
					filter = `{"toolsListChanged":true}`
				}
				answering(200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{\"notifications\":"+filter+"}}\r\n\r\n")(w, r)
				if w.(http.Flusher).Flush(); others {
					<-r.Context().Done()
					return
				}
				_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\r\n\r\n")
			}), setup{})
			resp := b.modern("subscriptions/listen", "subscriptions/listen", `"notifications":{"toolsListChanged":true,"eventsListChanged":true}`)
			lines := bufio.NewReader(resp.Body)
			line, _ := lines.ReadString('\n')
			if !strings.Contains(line, `"eventsListChanged":true`) || strings.Contains(line, "toolsListChanged") != others {
				t.Errorf("acknowledged %q", line)
			}
			b.register("more")
			for !strings.Contains(line, wire.NotificationListChanged) {
				var err error
				if line, err = lines.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// The grant of a webhook subscription ends within Reauthorize, unless next is not asked.
func TestGrants(t *testing.T) {
	for _, c := range []struct {
		trusted bool
		every   time.Duration
		want    time.Duration
	}{{false, 0, 5 * time.Minute}, {false, time.Minute, time.Minute}, {false, -1, 30 * time.Minute}, {true, 0, 30 * time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, accepting(nil), setup{options: Options{Trusted: c.trusted}, server: server.Options{
				Principal:   func(context.Context, *mcp.RequestExtra) string { return "ada" },
				Reauthorize: c.every,
				Webhooks: webhooks.New(webhooks.Options{AllowReceivers: []string{"http://receiver.test"},
					Callbacks: callbacks.Options{AllowOrigins: []string{"http://receiver.test"}}})}})
			params := `"name":"tick","delivery":{"mode":"webhook","url":"http://receiver.test/","secret":"whsec_` + base64.StdEncoding.EncodeToString(make([]byte, 32)) + `"}`
			for _, answer := range []string{
				text(b.post(`{"jsonrpc":"2.0","id":1,"method":"events/subscribe","params":{`+params+`}}`, "Mcp-Session-Id", "s")),
				text(b.modern("events/subscribe", "events/subscribe", params)),
			} {
				m, _ := parse([]byte(answer))
				var result struct {
					RefreshBefore time.Time `json:"refreshBefore"`
				}
				(message{Params: m.Result}).params(&result)
				if result.RefreshBefore.Sub(time.Now().Truncate(time.Millisecond)) != c.want {
					t.Errorf("%+v: %s at %s", c, answer, time.Now())
				}
			}
		})
	}
}

// AUTH-2: calls with different tokens in one session are rechecked separately, even if they have the same principal.
func TestRecheckOfEachToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var revoked atomic.Bool
		b := newBed(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if revoked.Load() && r.Header.Get("Authorization") == "Bearer old" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			answering(200, "application/json", accepted)(w, r)
		}), setup{server: server.Options{Principal: func(context.Context, *mcp.RequestExtra) string { return "ada" }}})
		before, after := b.open("s", "1", "Authorization", "Bearer old"), b.open("s", "2", "Authorization", "Bearer new")
		revoked.Store(true)
		time.Sleep(time.Minute)
		if !ended(before) || ended(after) {
			t.Error("the call with the revoked token, and no other, must end")
		}
		if b.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`, "Mcp-Session-Id", "s", "Authorization", "Bearer newer"); !ended(after) {
			t.Error("the caller could not cancel with a refreshed token")
		}
	})
}
