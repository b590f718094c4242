package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/conform"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/conform/clients"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/conform/receivers"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/childenv"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

const conformHelp = `Test any server that speaks the Events extension, in any language, against the
requirements that can be checked from outside: listing, poll, push, cursors, errors in
both families of codes, ids and cancellation.

Each requirement has an ID, explained in docs/requirements.md, and each finding says
what was sent, what came back and what was expected; tokens and secrets are left out.
"advice" is not required of every server by any document, and does not fail the run.

The modes of one event type are followed side by side: each must bring the same events,
and each cursor must lead to the events after it.

--listen tests webhooks too: subscribing, the challenge, signatures, refused deliveries,
rotation, unsubscribing. --other-token also tests what another caller can do to a
subscription. The server must be able to reach --public-url, and must not have it on an
allow-list. Requirements that need an occurrence are skipped when nothing occurs within
--wait. --ssrf asks for callbacks at private addresses, which a server must refuse; use
it only on your own servers.

With --slow the end of grants, of retries and of old secrets is waited for too, and
streams are followed, which takes up to 20 minutes. --restart names a command that starts
the server anew and then ends, the server in the background: cursors and subscriptions
have to outlive it, or to say that they do not.

Otherwise a run takes less than two minutes. It subscribes only to callbacks of its
own, and ends its subscriptions, also on Ctrl-C.

--client tests a client: conform plays servers that misbehave, and starts the COMMAND
after -- once for each, up to six at once. {url} in it becomes the server's URL. The only
event type is tick; the client must follow it, by any mode it offers, until it is asked
to stop. --handled names the file to which the client appends a line with the eventId
of each event that it handled; - means its standard output. Without --handled only
requests are judged.

--receiver tests a webhook receiver instead: conform plays the server, and posts
challenges, events, gaps and a termination to the URL, some of them wrong, signed with
--secret. The receiver must know --subscription. --handled names the file to which the
receiver appends a line for each message that it handled: the eventId of an event, the
webhook-id of a gap or a termination. Without --handled only responses are judged. A
COMMAND after -- starts the receiver, with the secret in MCPE_GEN_SECRET; it is killed
once and started again to see whether it loses a message that it accepted. The run ends
with a termination.

--badge writes an SVG image with the result, for a README. It needs no external service,
so it works for private projects too.

A run that its time limit ends, or that judges next to nothing, is not finished: a line
after the summary, a member of the JSON and a case of the JUnit file say why.

Exit codes: 0 when nothing failed; 1 when there is no MCP server with events, the
receiver's URL does not answer, or the client sends no request; 6 when a requirement does
not hold; 8 when nothing failed and the run was not finished.`

func newConform(c *command) *cobra.Command {
	var o conform.Options
	var hooks receivers.Options
	var players clients.Options
	var data string
	var written files
	var isClient bool
	cmd := &cobra.Command{
		Use:   "conform URL | -- COMMAND... | --receiver URL --secret SECRET [-- COMMAND...] | --client -- COMMAND... {url}",
		Short: "Test a server, a webhook receiver or a client against the protocol's requirements",
		Long:  conformHelp,
		Example: `  mcpe-gen conform https://mcp.example.com/mcp --token $TOKEN
  mcpe-gen conform -- ./server -stdio
  mcpe-gen conform http://127.0.0.1:8080/mcp --event incident.created --arg severity=P1
  mcpe-gen conform http://127.0.0.1:8080/mcp --format json | jq '.findings[] | select(.outcome == "fail")'
  mcpe-gen conform http://127.0.0.1:8080/mcp --junit conform.xml
  mcpe-gen conform https://mcp.example.com/mcp --token $TOKEN --listen :8443 \
    --public-url https://me.example.net:8443 --tls-cert cert.pem --tls-key key.pem
  mcpe-gen conform --receiver http://127.0.0.1:9000/hooks/1 --secret $SECRET --handled handled.txt -- ./consumer
  mcpe-gen conform --client --handled - --badge client.svg -- ./watch -url {url} -event tick`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if isClient {
				if err := refuseFlags(cmd, slices.Concat(serverOnly, receiverOnly, []string{"event", "receiver"}), "--%s does not go with --client"); err != nil {
					return err
				}
				if dash := cmd.ArgsLenAtDash(); dash > 0 || dash < 0 && len(args) > 0 {
					return usagef("conform --client takes the command of a client after --; %q stands before it", args[0])
				}
				players.Command, players.Handled = args, hooks.Handled
				return c.judged(cmd.Context(), "client", written, func(ctx context.Context) (*verdict.Report, error) {
					return clients.Run(ctx, players)
				})
			}
			if cmd.Flags().Changed("receiver") {
				if err := refuseFlags(cmd, serverOnly, "--%s does not go with --receiver"); err != nil {
					return err
				}
				dash := cmd.ArgsLenAtDash()
				switch {
				case dash < 0 && len(args) > 0 || dash > 0:
					return usagef("conform takes one receiver, by --receiver; %q is another one", args[0])
				case dash == 0 && len(args) == 0:
					return usagef("no command after --")
				}
				hooks.Command, hooks.Data, hooks.Stderr = args, json.RawMessage(data), c.stderr
				if o.Event != "" {
					hooks.Event = o.Event
				}
				return c.judged(cmd.Context(), "receiver", written, func(ctx context.Context) (*verdict.Report, error) {
					return receivers.Run(ctx, hooks)
				})
			}
			if err := refuseFlags(cmd, receiverOnly, "--%s goes with --receiver"); err != nil {
				return err
			}
			if cmd.Flags().Changed("handled") {
				return usagef("--handled goes with --receiver and with --client")
			}
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
			return c.conform(cmd.Context(), o, written)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&o.Event, "event", "", "test this event `type` (default: for each delivery mode one that occurs)")
	flags.StringArrayVar(&o.Args, "arg", nil, "argument of its subscriptions as `KEY=VALUE`; may be repeated")
	flags.DurationVar(&o.Wait, "wait", 20*time.Second, fmt.Sprintf("how `long` to wait for an occurrence, at most %v",
		conform.MaxWait))
	flags.StringVar(&o.Revision, "revision", "",
		"protocol `revision` to speak, "+wire.RevisionStateless+" or "+wire.RevisionLegacy+
			" (default: the newest that the server knows)")
	receiverFlags(cmd, &o.Receiver)
	flags.BoolVar(&o.Slow, "slow", false, "also try what time alone shows, up to 20 minutes: grants, retries, heartbeats, long streams")
	flags.StringVar(&o.Restart, "restart", "", "`command` for the shell that starts the server of the URL anew, to try what a restart leaves")
	flags.BoolVar(&o.SSRF, "ssrf", false, "also try callbacks at private addresses, which must be refused; needs --listen")
	flags.StringVar(&o.Target.Token, "token", os.Getenv(tokenVariable), tokenUsage)
	flags.StringVar(&o.OtherToken, "other-token", "", "bearer `token` of another caller, to test what depends on the caller")
	flags.BoolVar(&isClient, "client", false, "test the client that the command after -- starts, instead of a server")
	hooks.Event = receivers.DefaultEvent
	flags.StringVar(&hooks.URL, "receiver", "", "test the webhook receiver at this `URL` instead of a server")
	flags.StringVar(&hooks.Secret, "secret", os.Getenv(secretVariable),
		"`whsec_...` that the receiver has for --receiver (default: $"+secretVariable+")")
	flags.StringVar(&hooks.Subscription, "subscription", receivers.DefaultSubscription,
		"`id` of the subscription that the receiver knows")
	flags.StringVar(&data, "data", "{}", "`JSON` object that the events for --receiver carry")
	flags.StringVar(&hooks.Handled, "handled", "", "`file` with a line for each message that the receiver or client handled")
	hideDefault(cmd, "secret")
	_ = cmd.MarkFlagFilename("handled")
	flags.StringVar(&written.junit, "junit", "", "also write the findings to this `file`, in JUnit's format")
	flags.StringVar(&written.badge, "badge", "", "also write an SVG image with the result to this `file`")
	hideDefault(cmd, "token")
	completeWords(cmd, "revision", wire.RevisionStateless, wire.RevisionLegacy)
	_ = cmd.MarkFlagFilename("junit", "xml")
	_ = cmd.MarkFlagFilename("badge", "svg")
	return cmd
}

// secretVariable is where --secret is looked for, so that it need not stand in a list of processes.
const secretVariable = childenv.Secret

// The flags that are about one role only.
var (
	serverOnly = []string{"arg", "wait", "revision", "listen", "public-url", "tls-cert", "tls-key", "ssrf", "slow", "restart", "token",
		"other-token"}
	receiverOnly = []string{"secret", "subscription", "data"}
)

// refuseFlags refuses flags of another role, format says of which.
func refuseFlags(cmd *cobra.Command, names []string, format string) error {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return usagef(format, name)
		}
	}
	return nil
}

// files are what a report is also written to; "" is none.
type files struct{ junit, badge string }

func (c *command) conform(ctx context.Context, o conform.Options, written files) error {
	if o.SSRF && o.Receiver.Listen == "" {
		return usagef("--ssrf goes with --listen: it is about subscriptions by webhook")
	}
	o.Stderr = c.stderr
	return c.judged(ctx, "server", written, func(ctx context.Context) (*verdict.Report, error) { return conform.Run(ctx, o) })
}

// judged runs a judge of what, and writes its report.
func (c *command) judged(ctx context.Context, what string, written files, judge func(context.Context) (*verdict.Report, error)) error {
	if c.format != "text" && c.format != "json" {
		return usagef("--format %s: conform writes text and json", c.format)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second Ctrl-C ends the process at once, should the server keep the first one waiting.
	context.AfterFunc(ctx, stop)
	report, err := judge(ctx)
	if wrong, ok := errors.AsType[*verdict.UsageError](err); ok {
		return refuse(wrong)
	}
	if report == nil {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		return err
	}
	if err := writeTo("junit", written.junit, report.WriteJUnit); err != nil {
		return err
	}
	// A badge of a run that was interrupted would say too much.
	if ctx.Err() == nil {
		if err := writeTo("badge", written.badge, func(w io.Writer) error { return report.WriteBadge(w, what) }); err != nil {
			return err
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
	case report.Unfinished != nil:
		return silent(exitUnfinished)
	}
	return nil
}

// writeTo writes the file that a flag names, if any.
func writeTo(flag, file string, write func(io.Writer) error) error {
	if file == "" {
		return nil
	}
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	if err := os.WriteFile(file, b.Bytes(), 0o666); err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	return nil
}

// outcomeColors are ANSI's: green, red, yellow; skipped and unjudged checks are dim.
var outcomeColors = map[verdict.Outcome]string{verdict.Pass: "32", verdict.Fail: "31", verdict.Advice: "33",
	verdict.Skip: "2", verdict.Unjudged: "2"}

// paintOutcome marks an outcome where standard output is looked at by a person.
func (c *command) paintOutcome(o verdict.Outcome, text string) string {
	if !c.coloredOn(c.stdout) {
		return text
	}
	return "\x1b[" + outcomeColors[o] + "m" + text + "\x1b[0m"
}
