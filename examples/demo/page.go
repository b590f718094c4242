package main

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"time"
)

//go:embed page
var pageFiles embed.FS

// pagePolicy allows the page to load only its own two files.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'"

// page serves a web page on loopback until ctx ends, and prints its URL. The page shows how an event is delivered by
// poll, push and webhook. A visitor can pause subscribers and kill the server.
func page(ctx context.Context, bin, bodies, tokens string, out io.Writer) error {
	dir, err := os.MkdirTemp("", "mcpe-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer ln.Close()
	s := newStage(bin, bodies)
	web := &http.Server{Handler: s.handler(ln.Addr().String()), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second}
	defer web.Close()
	return s.run(ctx, dir, tokens, func() {
		go web.Serve(ln)
		fmt.Fprintf(out, "The page is on http://%s/ until you press Ctrl-C.\n", ln.Addr())
	})
}

// handler serves the page to browsers that request it at address. Pages from other origins cannot trigger actions.
func (s *stage) handler(address string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, pageFiles, "page/page.html") })
	mux.HandleFunc("GET /page.css", func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, pageFiles, "page/page.css") })
	mux.HandleFunc("GET /page.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, pageFiles, "page/page.js") })
	mux.HandleFunc("GET /state", s.follow)
	for path, act := range map[string]func(*http.Request) error{
		"/send":   func(*http.Request) error { return s.send() },
		"/kill":   func(*http.Request) error { return s.kill() },
		"/pause":  func(r *http.Request) error { return s.pause(r.Context(), r.FormValue("way"), true) },
		"/resume": func(r *http.Request) error { return s.pause(r.Context(), r.FormValue("way"), false) },
	} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			if err := act(r); err != nil {
				http.Error(w, err.Error(), http.StatusConflict)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		})
	}
	own := http.NewCrossOriginProtection().Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != address { // another host name that resolves to our address
			http.Error(w, "open http://"+address+"/", http.StatusMisdirectedRequest)
			return
		}
		w.Header().Set("Content-Security-Policy", pagePolicy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		own.ServeHTTP(w, r)
	})
}

// follow sends the state of the stage as a server-sent event after each change.
func (s *stage) follow(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	for {
		state, changed := s.state()
		b, err := json.Marshal(state)
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", b); err != nil || out.Flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// A stageState is the state of a stage as shown on the page.
type stageState struct {
	Up       bool       `json:"up"`
	Kills    int        `json:"kills"`
	Made     int        `json:"made"`
	Accepted int        `json:"accepted"`
	Ways     []wayState `json:"ways"`
	Verdict  string     `json:"verdict"`
}

type wayState struct {
	Name   string    `json:"name"`
	Paused bool      `json:"paused"`
	Count  int       `json:"count"`
	Last   []arrival `json:"last"`
}

// state returns the current state, and a channel that is closed when the state changes.
func (s *stage) state() (stageState, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := stageState{Up: s.server != nil, Kills: s.kills, Made: len(s.made), Accepted: s.accepted}
	behind, paused := false, ""
	for _, name := range wayNames {
		w := s.ways[name]
		st.Ways = append(st.Ways, wayState{Name: name, Paused: w.paused, Count: len(w.has), Last: slices.Clone(w.last)})
		behind = behind || len(w.has) < st.Made
		if w.paused && len(w.has) < st.Made {
			paused = name
		}
	}
	switch {
	case !st.Up:
		st.Verdict = "The server was killed. GitHub sends later what it does not accept now."
	case paused != "":
		st.Verdict = fmt.Sprintf("Events wait for the subscriber by %s, which is paused.", paused)
	case behind:
		st.Verdict = "Events are on their way."
	case st.Made == 0:
		st.Verdict = "Send an event."
	default:
		st.Verdict = fmt.Sprintf("Each subscriber has all %d events. Nothing is lost.", st.Made)
	}
	return st, s.changed
}
