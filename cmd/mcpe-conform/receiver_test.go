package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/handled"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/receivers"
	"github.com/mcpe-gen/mcpe-gen/internal/testkit/freeport"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// hookReceiver is the program receiver of scripts: our own receiver, by receiver ADDRESS SECRET FILE. It serves the
// path /mcp/webhooks/1 and adds to FILE what it takes.
func hookReceiver() {
	if err := receiveHooks(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func receiveHooks(address, text, file string) error {
	secret, err := webhook.ParseSecret(text)
	if err != nil {
		return err
	}
	// What was handled before a restart is not handled again.
	lines, err := handled.Lines(file)
	if err != nil {
		return err
	}
	before := slices.Collect(lines)
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	hooks, err := webhook.NewReceiver(webhook.ReceiverOptions{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	end, err := hooks.Open(webhook.EndpointOptions{Path: "/mcp/webhooks/1", Ring: webhook.NewRing(secret)})
	if err != nil {
		return err
	}
	end.Activate(receivers.DefaultSubscription, func(_ context.Context, d webhook.Delivery) error {
		line := d.ID
		if d.Type == "" {
			line = d.Occurrence.EventID
		}
		if d.Type == webhook.TypeTerminated {
			end.Close()
		}
		if slices.Contains(before, line) {
			return nil
		}
		_, err := fmt.Fprintln(f, line)
		return err
	})
	return http.ListenAndServe(address, hooks)
}

// freeAddress sets a variable of the script to an address of loopback at which nobody listens.
func freeAddress(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: freeaddress VARIABLE")
	}
	addrs, release, err := freeport.Reserve(1)
	ts.Check(err)
	defer release()
	ts.Setenv(args[0], addrs[0])
}
