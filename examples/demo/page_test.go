package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

// A visitor is a browser on the page of the demo, without a window.
type visitor struct {
	t   *testing.T
	url string
}

// On the page events arrive by each way, a subscriber that was paused and a server that was killed lose nothing, and
// other pages can do nothing.
func TestPage(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it builds an example")
	}
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, "../github").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan struct{})
	var ended error
	go func() {
		defer close(done)
		ended = withTokens(func(tokens string) error { return page(ctx, bin, "../github/testdata", tokens, w) })
		w.CloseWithError(errors.Join(io.EOF, ended))
	}()
	defer func() {
		cancel()
		if <-done; ended != nil {
			t.Error(ended)
		}
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(line, "The page is on ")
	url, _, ok := strings.Cut(rest, " ")
	if !ok {
		t.Fatal(line)
	}
	v := &visitor{t: t, url: url}
	states := v.watch(ctx)
	until := func(what string, holds func(stageState) bool) {
		t.Helper()
		for st := range states {
			if holds(st) {
				return
			}
		}
		t.Fatalf("never: %s", what)
	}
	has := func(st stageState, poll, push, webhook int) bool {
		return st.Ways[0].Count == poll && st.Ways[1].Count == push && st.Ways[2].Count == webhook
	}
	for _, way := range wayNames { // before anything has come
		v.act("pause?way="+way, 0)
	}
	until("all are paused", func(st stageState) bool { return st.Ways[0].Paused && st.Ways[1].Paused && st.Ways[2].Paused })
	v.act("send", 0)
	until("the server has the first event", func(st stageState) bool { return st.Accepted == 1 && has(st, 0, 0, 0) })
	for _, way := range wayNames {
		v.act("resume?way="+way, 0)
	}
	until("the first event by all ways", func(st stageState) bool { return has(st, 1, 1, 1) })
	for i, way := range wayNames {
		v.act("pause?way="+way, 0)
		until(way+" is paused", func(st stageState) bool { return st.Ways[i].Paused })
		v.act("send", 0)
		want := []int{i + 2, i + 2, i + 2}
		want[i]--
		until("the others have it", func(st stageState) bool { return has(st, want[0], want[1], want[2]) })
		if i == 1 {
			v.act("kill", 0)
			until("the server is killed", func(st stageState) bool { return !st.Up })
			v.act("pause?way=webhook", http.StatusConflict)
			v.act("kill", http.StatusConflict)
			until("it is back", func(st stageState) bool { return st.Up && st.Kills == 1 })
		}
		v.act("resume?way="+way, 0)
		until("it has what it missed", func(st stageState) bool { return has(st, i+2, i+2, i+2) && !st.Ways[i].Paused })
	}
	v.act("kill", 0)
	until("the server is killed", func(st stageState) bool { return !st.Up })
	for range 3 {
		v.act("send", 0)
	}
	until("nothing is lost", func(st stageState) bool {
		return has(st, 7, 7, 7) && st.Accepted == 7 && strings.Contains(st.Verdict, "all 7 events")
	})

	v.act("pause?way=pigeon", http.StatusConflict)
	for name, change := range map[string]func(*http.Request){
		"a page elsewhere": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"another origin":   func(r *http.Request) { r.Header.Set("Origin", "http://elsewhere.example") },
		"another name":     func(r *http.Request) { r.Host = "elsewhere.example" },
	} {
		if status, _ := v.post("kill", change); status < 400 {
			t.Errorf("%s kills the server: %d", name, status)
		}
	}
}

// watch returns the states that the page gets, until ctx ends.
func (v *visitor) watch(ctx context.Context) <-chan stageState {
	v.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.url+"state", nil)
	if err != nil {
		v.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	states := make(chan stageState)
	go func() {
		defer close(states)
		defer resp.Body.Close()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			var st stageState
			if err := json.Unmarshal([]byte(data), &st); err != nil {
				v.t.Error(err)
				return
			}
			select {
			case states <- st:
			case <-ctx.Done():
				return
			}
		}
	}()
	return states
}

// act does what a button does; want is the status of a refusal, 0 for none.
func (v *visitor) act(path string, want int) {
	v.t.Helper()
	if want == 0 {
		want = http.StatusNoContent
	}
	if status, text := v.post(path, nil); status != want {
		v.t.Fatalf("%s: %d %s, want %d", path, status, text, want)
	}
}

func (v *visitor) post(path string, change func(*http.Request)) (status int, text string) {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, v.url+path, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	if change != nil {
		change(req)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}
