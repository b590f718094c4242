package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// webhooks demonstrates delivery by webhook: verification, signatures, a receiver that fails and recovers, rotation of
// the secret, and a killed server that does not lose events.
func webhooks(ctx context.Context, w io.Writer, github, bodies, tokens string) (err error) {
	e, err := newEndpoint()
	if err != nil {
		return err
	}
	defer e.server.Close()
	dir, err := os.MkdirTemp("", "mcpe-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, e.caPEM, 0o600); err != nil {
		return err
	}
	argv := []string{"-http", "127.0.0.1:0", "-github-secret", secret, "-tokens", tokens,
		"-webhooks", "-dev", "-db", filepath.Join(dir, "events.db"), "-callback-ca", ca, "-retry", "0s,300ms,1s,1s,1s"}
	server, base, err := startServer(ctx, github, argv)
	if err != nil {
		return err
	}
	defer func() { server.kill() }()
	send := func(id, file string) error {
		event, _, _ := strings.Cut(file, ".")
		return post(ctx, base+"/github", filepath.Join(bodies, file), event, id)
	}

	fmt.Fprintln(w, "\nissues.opened by webhook over TLS, repo=Codertocat/Hello-World")
	first := webhook.NewSecret()
	e.setSecrets(first)
	sub, err := subscribe(ctx, base, e.url, first)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "  subscribed   the endpoint proved itself by a signed challenge; until %s\n", sub.RefreshBefore)

	e.failNext(2)
	if err := send("w-issue-1", "issues.opened.json"); err != nil {
		return err
	}
	if err := e.waitUntil(ctx, "the third attempt", func() bool { return len(e.taken) == 1 }); err != nil {
		return err
	}
	fmt.Fprintf(w, "  w-issue-1    refused %d times with 503, then taken; signature checked each time\n", len(e.refused))

	second := webhook.NewSecret()
	if _, err := subscribe(ctx, base, e.url, second); err != nil {
		return err
	}
	e.setSecrets(first, second) // in the window after a rotation both secrets must have signed
	if err := send("w-issue-2", "issues.opened.2.json"); err != nil {
		return err
	}
	if err := e.waitUntil(ctx, "the delivery after the rotation", func() bool { return len(e.taken) == 2 }); err != nil {
		return err
	}
	fmt.Fprintln(w, "  w-issue-2    after a rotation of the secret: signed with the old and the new one")

	e.failNext(1)
	if err := send("w-issue-3", "issues.opened.json"); err != nil {
		return err
	}
	if err := e.waitUntil(ctx, "an attempt before the crash", func() bool { return len(e.refused) == 3 }); err != nil {
		return err
	}
	server.kill()
	if server, base, err = startServer(ctx, github, argv); err != nil {
		return err
	}
	if err := send("w-issue-4", "issues.opened.2.json"); err != nil {
		return err
	}
	if err := e.waitUntil(ctx, "the deliveries after the restart", func() bool { return len(e.taken) >= 4 }); err != nil {
		return err
	}
	fmt.Fprintln(w, "  w-issue-3    the server was killed after a refused attempt; delivered after its restart")
	fmt.Fprintln(w, "  w-issue-4    emitted after the restart to the same subscription")
	if err := server.end(); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Equal(slices.Sorted(slices.Values(e.taken)), []string{"w-issue-1", "w-issue-2", "w-issue-3", "w-issue-4"}) {
		return fmt.Errorf("the endpoint took %v", e.taken)
	}
	return nil
}

// startServer starts the GitHub events server and returns its base URL.
func startServer(ctx context.Context, program string, argv []string) (*process, string, error) {
	p, err := spawn(program, argv...)
	if err != nil {
		return nil, "", err
	}
	base, err := p.waitFor(ctx, "listening on ")
	if err != nil {
		p.kill()
		return nil, "", err
	}
	return p, base, nil
}

// A subscription contains the fields of the events/subscribe response that the demo prints.
type subscription struct {
	ID            string `json:"id"`
	RefreshBefore string `json:"refreshBefore"`
}

// subscribe sends events/subscribe like a client of revision 2026-07-28. A second call with the same key refreshes the
// subscription and rotates its secret.
func subscribe(ctx context.Context, base, callback string, s webhook.Secret) (*subscription, error) {
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": 1, "method": "events/subscribe",
		"params": map[string]any{
			"name": "issues.opened", "arguments": map[string]any{"repo": "Codertocat/Hello-World"}, "cursor": nil,
			"delivery": map[string]any{"mode": "webhook", "url": callback, "secret": s.Text()},
			"_meta": map[string]any{
				"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
				"io.modelcontextprotocol/clientCapabilities": map[string]any{},
				"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "demo", "version": "1"},
			},
		},
	})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/mcp", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "events/subscribe", "Authorization": "Bearer " + token} {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil {
		return nil, err
	}
	var answer struct {
		Result *subscription   `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(dataOf(text.Bytes()), &answer); err != nil || answer.Result == nil {
		return nil, fmt.Errorf("events/subscribe was answered with %s: %s", resp.Status, text.String())
	}
	return answer.Result, nil
}

// dataOf returns the JSON in a response, which may be a server-sent event.
func dataOf(answer []byte) []byte {
	for line := range bytes.Lines(answer) {
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && len(bytes.TrimSpace(data)) > 0 {
			return data
		}
	}
	return answer
}
