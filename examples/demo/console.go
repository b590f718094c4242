package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

const (
	// consolePause is how often GitHub sends a webhook while the console is looked at.
	consolePause = 2 * time.Second
	// consoleRefresh is how often the subscription is refreshed, well before it expires.
	consoleRefresh = 10 * time.Minute
)

// console serves the operators' console of a GitHub events server on loopback until ctx ends: an endpoint
// that refuses some deliveries and a stream get what GitHub sends every 2 seconds. It says where, and the
// token, which is made anew each time.
func console(ctx context.Context, bin, bodies, tokens string, out io.Writer) (err error) {
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
	ca, operators, operatorToken := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "operators.json"), rand.Text()
	who, err := json.Marshal(map[string]string{operatorToken: "demo"})
	if err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile(ca, e.caPEM, 0o600), os.WriteFile(operators, who, 0o600)); err != nil {
		return err
	}
	server, base, err := startServer(ctx, filepath.Join(bin, "github"), []string{"-http", "127.0.0.1:0", "-github-secret", secret, "-tokens", tokens,
		"-webhooks", "-dev", "-db", filepath.Join(dir, "events.db"), "-callback-ca", ca, "-operators", operators, "-operator-payloads"})
	if err != nil {
		return err
	}
	defer server.kill()
	s := webhook.NewSecret()
	e.accept(s)
	if _, err := subscribe(ctx, base, e.url, s); err != nil {
		return err
	}
	stream := &subscriber{mode: "push", event: "issues.opened", connect: overHTTP(base)[0].connect}
	if stream.process, err = spawn(filepath.Join(bin, "watch"), stream.argv()...); err != nil {
		return err
	}
	defer stream.process.kill()
	if _, err := stream.process.waitFor(ctx, "subscribed to "); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nThe console is on %s/ops/ until you press Ctrl-C: any user, password %s\n", base, operatorToken)
	fmt.Fprintf(out, "In a shell: MCPE_ADMIN_TOKEN=%s mcpe-gen admin %s/ops tail\n", operatorToken, base)
	refreshed := time.Now()
	for n := 1; ; n++ {
		if n%7 == 0 {
			e.fail(1)
		}
		if err := post(ctx, base+"/github", filepath.Join(bodies, "issues.opened.json"), "issues", fmt.Sprint("c-issue-", n)); err != nil && ctx.Err() == nil {
			return err
		}
		if time.Since(refreshed) > consoleRefresh {
			if _, err := subscribe(ctx, base, e.url, s); err != nil && ctx.Err() == nil {
				return err
			}
			refreshed = time.Now()
		}
		select {
		case <-ctx.Done():
			return errors.Join(stream.process.end(), server.end())
		case <-server.done:
			return fmt.Errorf("%s ended: %w", server.name, server.err)
		case <-time.After(consolePause):
		}
	}
}
