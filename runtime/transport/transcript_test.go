package transport

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// A transcript is what went over the wire, as files of a txtar archive: "> …" from the client,
// "< …" from the server. What differs from run to run is numbered in order of appearance.
type transcript struct {
	archive txtar.Archive
	names   map[string]string
}

func (tr *transcript) add(name string, data []byte) {
	tr.archive.Files = append(tr.archive.Files, txtar.File{Name: name, Data: append(bytes.TrimRight(data, "\n"), '\n')})
}

var volatile = regexp.MustCompile(`"(cursor|nextCursor)":"([^"]+)"`)

// stable replaces what is random.
func (tr *transcript) stable() []byte {
	tr.names = map[string]string{}
	return volatile.ReplaceAllFunc(txtar.Format(&tr.archive), func(m []byte) []byte {
		sub := volatile.FindSubmatch(m)
		key := string(sub[2])
		if tr.names[key] == "" {
			tr.names[key] = fmt.Sprintf("<%d>", len(tr.names)+1)
		}
		return []byte(`"` + string(sub[1]) + `":"` + tr.names[key] + `"`)
	})
}

func (tr *transcript) compare(t *testing.T, file string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	got := tr.stable()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; run with -update to see how\n%s", path, got)
	}
}

// story is the main exchanges of the extension, in one mode: call makes a call, begin
// opens a stream and returns what waits for its end.
func (g *rig) story(call func(id, method, params string), begin func(id, params string) (end func())) {
	at := events.WithTimestamp(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC))
	call(`1`, wire.MethodList, "")
	call(`2`, wire.MethodPoll, `{"name":"tick","arguments":{"channel":"a"},"cursor":null,"maxEvents":50}`)
	call(`3`, wire.MethodPoll, `{"name":"nope","cursor":null}`)
	call(`4`, wire.MethodPoll, `{"name":"tick","arguments":{"chanel":"a"}}`)
	call(`5`, wire.MethodStream, `{"name":"nope"}`)
	end := begin(`8.0`, `{"name":"tick","arguments":{"channel":"a"},"cursor":null}`)
	synctest.Wait()
	ctx := context.Background()
	for i, channel := range []string{"a", "b"} {
		if err := g.ticks.Emit(ctx, tickPayload{Seq: i, Channel: channel, Note: "<&>"}, events.WithID(fmt.Sprint("evt_", i)), at); err != nil {
			g.t.Error(err)
		}
	}
	time.Sleep(16 * time.Second) // a heartbeat
	synctest.Wait()
	g.es.Revoke(ctx, "alice")
	g.es.Revoke(ctx, "")
	end()
	end = begin(`"9"`, `{"name":"tick","cursor":null}`)
	synctest.Wait()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := g.es.Shutdown(ctx); err != nil {
		g.t.Error(err)
	}
	end()
}

// The exchanges of section 14, byte for byte, over HTTP. HTTP/1.1 and HTTP/2 carry the same.
func TestTranscriptHTTP(t *testing.T) {
	for _, m := range modes[2:] {
		t.Run(m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, server.Options{})
				c := g.serve(m, bearer(NewHandler(g.es, HandlerOptions{})))
				var tr transcript
				post := func(id, method, params string) *http.Response {
					body := m.request(id, method, params)
					tr.add("> POST "+method, []byte(body))
					return c.post(context.Background(), body, nil)
				}
				record := func(resp *http.Response, body []byte) {
					name := []string{"<", fmt.Sprint(resp.StatusCode), resp.Header.Get("Content-Type")}
					for _, k := range []string{"Cache-Control", "X-Accel-Buffering"} {
						if v := resp.Header.Get(k); v != "" {
							name = append(name, k+":", v)
						}
					}
					tr.add(strings.Join(name, " "), body)
				}
				read := func(resp *http.Response) []byte {
					defer resp.Body.Close()
					body, err := io.ReadAll(resp.Body)
					if err != nil {
						t.Error(err)
					}
					return body
				}
				g.story(func(id, method, params string) {
					resp := post(id, method, params)
					record(resp, read(resp))
				}, func(id, params string) func() {
					resp := post(id, wire.MethodStream, params)
					body := make(chan []byte, 1)
					go func() { body <- read(resp) }()
					return func() { record(resp, <-body) }
				})
				tr.compare(t, "http-"+m.version+".txtar")
			})
		})
	}
}

// The same exchanges on stdio.
func TestTranscriptStdio(t *testing.T) {
	for _, m := range modes[:2] {
		t.Run(m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, server.Options{})
				c := g.stdio(m)
				seen := 0
				var tr transcript
				received := func() {
					synctest.Wait()
					c.mu.Lock()
					defer c.mu.Unlock()
					if len(c.all) > seen {
						tr.add("<", []byte(strings.Join(c.all[seen:], "\n")))
					}
					seen = len(c.all)
				}
				received() // the handshake
				if m.modern() {
					tr.archive.Files = nil
				}
				send := func(id, method, params string) {
					request := m.request(id, method, params)
					tr.add(">", []byte(request))
					c.send(request)
				}
				g.story(func(id, method, params string) { send(id, method, params); received() },
					func(id, params string) func() { send(id, wire.MethodStream, params); return received })
				tr.compare(t, "stdio-"+m.version+".txtar")
			})
		})
	}
}
