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
	// consolePause is the interval between GitHub's webhooks while the console is served.
	consolePause = 2 * time.Second
	// consoleRefresh is the interval for refreshing the subscription. It is well below the time to expiry.
	consoleRefresh = 10 * time.Minute
)

// console serves the operators' console of a GitHub events server on loopback until ctx ends. GitHub sends a webhook
// every 2 seconds to a stream and to an endpoint that refuses some deliveries. console prints the URL and the token,
// which is new each time.
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
	argv, operatorToken, err := consoleArguments(dir, tokens, e)
	if err != nil {
		return err
	}
	server, base, err := startServer(ctx, filepath.Join(bin, "github"), append(argv, "-http", "127.0.0.1:0", "-operator-payloads"))
	if err != nil {
		return err
	}
	defer server.kill()
	s := webhook.NewSecret()
	e.setSecrets(s)
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
	fmt.Fprintf(out, "In a shell: MCPE_ADMIN_TOKEN=%s mcpe-gen admin tail %s/ops\n", operatorToken, base)
	refreshed := time.Now()
	for n := 1; ; n++ {
		if n%7 == 0 {
			e.failNext(1)
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

// consoleArguments prepares dir for a GitHub events server with a console and webhooks to e. It returns the server's
// arguments without an address, and the operator's token.
func consoleArguments(dir, tokens string, e *endpoint) (argv []string, operatorToken string, err error) {
	ca, operators, operatorToken := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "operators.json"), rand.Text()
	who, err := json.Marshal(map[string]string{operatorToken: "demo"})
	if err != nil {
		return nil, "", err
	}
	if err := errors.Join(os.WriteFile(ca, e.caPEM, 0o600), os.WriteFile(operators, who, 0o600)); err != nil {
		return nil, "", err
	}
	return []string{"-github-secret", secret, "-tokens", tokens, "-webhooks", "-dev", "-db", filepath.Join(dir, "events.db"),
		"-callback-ca", ca, "-operators", operators}, operatorToken, nil
}
