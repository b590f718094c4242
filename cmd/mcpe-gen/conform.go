package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/conform"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

const conformHelp = `Try the requirements of the Events extension that can be seen from outside against
any server that speaks it, in whatever language it is written: listing, poll, push,
cursors, errors in both families of codes, ids and cancellation.

Each requirement has an ID, explained in docs/requirements.md, and each finding says
what was sent, what came back and what was expected; tokens and secrets are left out.
"advice" is what no document demands of every server, and does not fail the run.

With --listen webhooks are tried too: subscribing, the challenge, signatures, refused
deliveries, rotation, unsubscribing. The server has to reach --public-url, and must
not have it on an allow-list. Requirements that need an occurrence are skipped when
nothing occurs within --wait. --ssrf asks for callbacks at private addresses, which
a server has to refuse; use it on servers that are yours.

A run takes less than two minutes, subscribes only to callbacks of its own, and ends
its subscriptions, also on Ctrl-C.

Exit codes: 0 when nothing failed, 1 when there is no MCP server with events, 6 when
a requirement does not hold.`

func newConform(c *command) *cobra.Command {
	var o conform.Options
	var junit string
	cmd := &cobra.Command{
		Use:   "conform URL | -- COMMAND...",
		Short: "Try the protocol's requirements against a server",
		Long:  conformHelp,
		Example: `  mcpe-gen conform https://mcp.example.com/mcp --token $TOKEN
  mcpe-gen conform -- ./server -stdio
  mcpe-gen conform http://127.0.0.1:8080/mcp --event incident.created --arg severity=P1
  mcpe-gen conform http://127.0.0.1:8080/mcp --format json | jq '.findings[] | select(.outcome == "fail")'
  mcpe-gen conform http://127.0.0.1:8080/mcp --junit conform.xml
  mcpe-gen conform https://mcp.example.com/mcp --token $TOKEN --listen :8443 \
    --public-url https://me.example.net:8443 --tls-cert cert.pem --tls-key key.pem`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				if o.Target.Command = args[dash:]; len(o.Target.Command) == 0 {
					return usagef("no command after --")
				}
				args = args[:dash]
			}
			if len(args) > 1 {
				return usagef("conform takes one server, got %q and %q", args[0], args[1])
			}
			if len(args) == 1 {
				o.Target.URL = args[0]
			}
			o.Target.Token = tokenFor(o.Target)
			return c.conform(cmd.Context(), o, junit)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&o.Event, "event", "", "try this event `type` (default: for each delivery mode one that occurs)")
	flags.StringArrayVar(&o.Args, "arg", nil, "argument of its subscriptions as `KEY=VALUE`; may be repeated")
	flags.DurationVar(&o.Wait, "wait", 20*time.Second, fmt.Sprintf("how `long` to wait for an occurrence, at most %v",
		conform.MaxWait))
	flags.StringVar(&o.Revision, "revision", "",
		"protocol `revision` to speak, "+wire.RevisionStateless+" or "+wire.RevisionLegacy+
			" (default: the newest that the server knows)")
	receiverFlags(cmd, &o.Receiver)
	flags.BoolVar(&o.SSRF, "ssrf", false, "also try callbacks at private addresses, which must be refused; needs --listen")
	flags.StringVar(&o.Target.Token, "token", os.Getenv(tokenVariable), tokenUsage)
	flags.StringVar(&junit, "junit", "", "also write the findings to this `file`, in JUnit's format")
	hideDefault(cmd, "token")
	completeWords(cmd, "revision", wire.RevisionStateless, wire.RevisionLegacy)
	_ = cmd.MarkFlagFilename("junit", "xml")
	return cmd
}

func (c *command) conform(ctx context.Context, o conform.Options, junit string) error {
	if c.format != "text" && c.format != "json" {
		return usagef("--format %s: conform writes text and json", c.format)
	}
	if o.SSRF && o.Receiver.Listen == "" {
		return usagef("--ssrf goes with --listen: it is about subscriptions by webhook")
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second Ctrl-C ends the process at once, should the server keep the first one waiting.
	context.AfterFunc(ctx, stop)
	o.Stderr = c.stderr
	report, err := conform.Run(ctx, o)
	if wrong, ok := errors.AsType[*conform.UsageError](err); ok {
		return refuse(wrong)
	}
	if report == nil {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		return err
	}
	if junit != "" {
		var b bytes.Buffer
		if err := report.WriteJUnit(&b); err != nil {
			return err
		}
		if err := os.WriteFile(junit, b.Bytes(), 0o666); err != nil {
			return fmt.Errorf("--junit: %w", err)
		}
	}
	if c.format == "json" {
		err = c.printJSON(report)
	} else {
		err = report.WriteText(c.stdout, c.quiet, c.paintOutcome)
	}
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return errors.New("interrupted: not all requirements were tried")
	case report.Failed > 0:
		return silent(exitConform)
	}
	return nil
}

// outcomeColors are ANSI's: green, red, yellow; what was skipped is dim.
var outcomeColors = map[conform.Outcome]string{conform.Pass: "32", conform.Fail: "31", conform.Advice: "33",
	conform.Skip: "2"}

// paintOutcome marks an outcome where standard output is looked at by a person.
func (c *command) paintOutcome(o conform.Outcome, text string) string {
	if !c.coloredOn(c.stdout) {
		return text
	}
	return "\x1b[" + outcomeColors[o] + "m" + text + "\x1b[0m"
}
