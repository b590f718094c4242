package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/serve"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

const serveHelp = `Serve event files as an MCP server without generated code, to try event types before
there is a server, or to develop a client. Never use it in production: it keeps nothing,
accepts a single token and trusts whatever is posted to it.

Without --http it serves one client on standard input and output. With --http MCP is
at /mcp. A port alone listens on loopback; other addresses need --token. Callers without
the token can use poll and push; callers with it also webhooks. --dev allows callbacks on
loopback. They must still use https; --callback-ca names the file of a certificate that
the system does not trust.

There are three sources of events: --sample generates them at an interval, --replay emits
the output of "mcpe-gen listen --json" as soon as somebody subscribes, and anybody can
post a payload:

  curl -H 'Content-Type: application/json' -d '{"id":"1"}' http://127.0.0.1:8080/emit/EVENT

With --token, the post needs the token too; "?id=ID" sets the eventId. Types whose source
is "check" are emitted as well. A type that is delivered only by webhook is left out if
there are no webhooks.

Clients that do not support events get a read tool for each event type, and events_wait.

--drop and --delay show how a client behaves on a bad network.`

func newServe(c *command) *cobra.Command {
	var o serve.Options
	cmd := &cobra.Command{
		Use:   "serve [FILE...]",
		Short: "Serve event files without generated code, to try them",
		Long:  serveHelp,
		Example: `  mcpe-gen serve events.yaml --http 8080 --sample 2s
  mcpe-gen serve events.yaml --sample 500ms       # on standard input and output
  mcpe-gen listen http://127.0.0.1:8080/mcp push --json > push.jsonl
  mcpe-gen serve events.yaml --http 8080 --replay push.jsonl --speed 10
  mcpe-gen serve events.yaml --http 8080 --sample 1s --drop 0.2 --delay 300ms
  mcpe-gen serve events.yaml --http 8080 --token $TOKEN --dev --callback-ca cert.pem`,
		ValidArgsFunction: completeEventFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.serve(cmd.Context(), args, o) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&o.HTTP, "http", "",
		"`address` to serve on, or a port of this machine (default: standard input and output)")
	flags.DurationVar(&o.Sample, "sample", 0, "generate an event of each type at this `interval`")
	flags.StringVar(&o.Replay, "replay", "", "emit the events of this `file`, lines of listen --json")
	flags.Float64Var(&o.Speed, "speed", 1, "replay events at this many `times` their original pace")
	flags.Float64Var(&o.Drop, "drop", 0, "`share` of polls, streams and subscriptions to cut off, such as 0.2")
	flags.DurationVar(&o.Delay, "delay", 0, "delay each request by this `time`")
	flags.StringVar(&o.Token, "token", "",
		"bearer `token` that gives webhooks (default: the environment's "+peer.TokenVariable+")")
	flags.BoolVar(&o.Dev, "dev", false, "allow callbacks on loopback, with any certificate")
	flags.StringVar(&o.CallbackCA, "callback-ca", "",
		"PEM `file` of certificates to trust at callbacks, in addition to the system's")
	_ = cmd.MarkFlagFilename("replay")
	_ = cmd.MarkFlagFilename("callback-ca")
	return cmd
}

func (c *command) serve(ctx context.Context, files []string, o serve.Options) error {
	if o.HTTP != "" && o.Token == "" {
		o.Token = os.Getenv(peer.TokenVariable)
	}
	if err := o.Check(); err != nil {
		return cli.Refuse(err)
	}
	all, err := c.loadSets(files)
	if err != nil {
		return err
	}
	var found []source.Diagnostic
	for _, l := range all {
		found = append(found, l.found...)
		o.Sets = append(o.Sets, l.set)
	}
	if err := c.reportAll(source.Sort(found), nil, exitDiagnostics); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second Ctrl-C ends the process immediately, in case a client delays the shutdown.
	context.AfterFunc(ctx, stop)
	o.Stdin, o.Stdout, o.Stderr, o.Quiet = os.Stdin, os.Stdout, c.Stderr, c.Quiet
	return serve.Run(ctx, o)
}
