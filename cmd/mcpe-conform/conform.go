package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/clients"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/receivers"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/internal/childenv"
	"github.com/mcpe-gen/mcpe-gen/internal/suggest"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

const conformHelp = `Test any server that speaks the Events extension, in any language, against the
requirements that can be checked from outside: listing, poll, push, cursors, errors in
both families of codes, ids and cancellation.

Each requirement has an ID, explained in docs/requirements.md, and each check a name.
Each finding shows the request, the response and the expectation, without tokens and
secrets. --accept NAME lets a check fail, for a server with known faults.
"advice" is not required of every server by any document, and does not fail the run.

The modes of one event type are followed side by side: each must bring the same events,
and each cursor must lead to the events after it.

--listen tests webhooks too: subscribing, the challenge, signatures, refused deliveries,
rotation, unsubscribing. --other-token also tests what another caller can do to a
subscription. The server must be able to reach --public-url, and must not have it on an
allow-list. --ssrf asks for callbacks at private addresses, which a server must refuse; use
it only on your own servers.

A run that sees no event of a delivery mode within --wait, or webhooks without --listen,
is not finished unless --allow-quiet accepts that. --emit names a command that causes
events: it runs about once a second for each event type, with the type's name in
MCPE_CONFORM_EVENT, and emits MCPE_CONFORM_N events together.

--slow also follows streams and waits until grants, retries and old secrets end, which
takes up to 20 minutes. --restart names a command that restarts the server in the
background and then ends: cursors and subscriptions must survive the restart, or the
server must report that they do not.

Otherwise a run takes less than two minutes. It subscribes only its own
callbacks, and ends its subscriptions, also on Ctrl-C.

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

The values that a check tries are drawn from classes: names, ids, statuses, sizes.
--seed repeats the values of an earlier run, whose report shows its seed.

A run that its time limit ends, or that judges next to nothing, is not finished: a line
after the summary, a member of the JSON and a case of the JUnit file say why.

Exit codes: 0 when nothing failed; 1 when there is no MCP server with events, the
receiver's URL does not answer, or the client sends no request; 6 when a requirement does
not hold; 8 when nothing failed and the run was not finished.`

// newRoot returns the command tree. Its root runs the checks.
func newRoot(c *command) *cobra.Command {
	var o conform.Options
	var hooks receivers.Options
	var players clients.Options
	var data string
	var reported reporting
	var isClient bool
	root := &cobra.Command{
		Use:   "mcpe-conform URL | -- COMMAND... | --receiver URL --secret SECRET [-- COMMAND...] | --client -- COMMAND... {url}",
		Short: "Test a server, a webhook receiver or a client against the protocol's requirements",
		Long:  conformHelp,
		Example: `  mcpe-conform https://mcp.example.com/mcp --token $TOKEN
  mcpe-conform -- ./server -stdio
  mcpe-conform http://127.0.0.1:8080/mcp --event incident.created --arg severity=P1
  mcpe-conform http://127.0.0.1:8080/mcp --format json | jq '.findings[] | select(.outcome == "fail")'
  mcpe-conform http://127.0.0.1:8080/mcp --junit conform.xml
  mcpe-conform https://mcp.example.com/mcp --token $TOKEN --listen :8443 \
    --public-url https://me.example.net:8443 --tls-cert cert.pem --tls-key key.pem
  mcpe-conform --receiver http://127.0.0.1:9000/hooks/1 --secret $SECRET --handled handled.txt -- ./consumer
  mcpe-conform --client --handled - --badge client.svg -- ./watch -url {url} -event tick`,
		ValidArgsFunction: cobra.NoFileCompletions,
		Args:              rejectMisspelling,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("seed") {
				o.Seed = uint64(rand.Uint32())
			}
			hooks.Seed, players.Seed = o.Seed, o.Seed
			if isClient {
				if err := refuseFlags(cmd, slices.Concat(serverOnly, receiverOnly, []string{"event", "receiver"}), "--%s does not go with --client"); err != nil {
					return err
				}
				if dash := cmd.ArgsLenAtDash(); dash > 0 || dash < 0 && len(args) > 0 {
					return cli.Usagef("--client takes the command of a client after --; %q stands before it", args[0])
				}
				players.Command, players.Handled = args, hooks.Handled
				return c.runChecks(cmd.Context(), "client", clients.Checks(), reported, func(ctx context.Context) (*verdict.Report, error) {
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
					return cli.Usagef("mcpe-conform takes one receiver, by --receiver; %q is another one", args[0])
				case dash == 0 && len(args) == 0:
					return cli.Usagef("no command after --")
				}
				hooks.Command, hooks.Data, hooks.Stderr = args, json.RawMessage(data), c.Stderr
				if o.Event != "" {
					hooks.Event = o.Event
				}
				return c.runChecks(cmd.Context(), "receiver", receivers.Checks(), reported, func(ctx context.Context) (*verdict.Report, error) {
					return receivers.Run(ctx, hooks)
				})
			}
			if err := refuseFlags(cmd, receiverOnly, "--%s goes with --receiver"); err != nil {
				return err
			}
			if cmd.Flags().Changed("handled") {
				return cli.Usagef("--handled goes with --receiver and with --client")
			}
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				if o.Target.Command = args[dash:]; len(o.Target.Command) == 0 {
					return cli.Usagef("no command after --")
				}
				args = args[:dash]
			}
			if len(args) > 1 {
				return cli.Usagef("mcpe-conform takes one server, got %q and %q", args[0], args[1])
			}
			if len(args) == 1 {
				o.Target.URL = args[0]
			}
			o.Target.Token = peer.TokenFor(o.Target)
			return c.conform(cmd.Context(), o, reported)
		},
	}
	flags := root.Flags()
	flags.SortFlags = false
	flags.BoolVarP(&c.Quiet, "quiet", "q", false, "print only requirements that do not hold, and advice")
	flags.StringVar(&o.Event, "event", "", "test this event `type` (default: a type that occurs, for each delivery mode)")
	flags.StringArrayVar(&o.Args, "arg", nil, "argument of its subscriptions as `KEY=VALUE`; may be repeated")
	flags.DurationVar(&o.Wait, "wait", 20*time.Second, fmt.Sprintf("how `long` to wait for an occurrence, at most %v",
		conform.MaxWait))
	flags.StringVar(&o.Revision, "revision", "",
		"protocol `revision` to speak, "+wire.RevisionStateless+" or "+wire.RevisionLegacy+
			" (default: the newest that the server knows)")
	o.Receiver.AddFlags(root)
	flags.BoolVar(&o.Slow, "slow", false, "also try what time alone shows, up to 20 minutes: grants, retries, heartbeats, long streams")
	flags.StringVar(&o.Restart, "restart", "", "`command` for the shell that restarts the server of the URL, to try the effects of a restart")
	flags.StringVar(&o.Emit, "emit", "", "`command` for the shell that emits events of $MCPE_CONFORM_EVENT, $MCPE_CONFORM_N together")
	flags.BoolVar(&o.AllowQuiet, "allow-quiet", false, "accept a run that judges no event of a delivery mode")
	flags.BoolVar(&o.SSRF, "ssrf", false, "also try callbacks at private addresses, which must be refused; needs --listen")
	peer.TokenFlag(root, &o.Target.Token)
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
	cli.HideDefault(root, "secret")
	_ = root.MarkFlagFilename("handled")
	flags.Uint64Var(&o.Seed, "seed", 0, "`number` that chooses the values to try; the report shows it (default: random)")
	flags.StringSliceVar(&reported.accepted, "accept", nil, "do not fail if the check with this `name` fails; may be repeated")
	flags.StringVar(&reported.junit, "junit", "", "also write the findings to this `file`, in JUnit's format")
	flags.StringVar(&reported.badge, "badge", "", "also write an SVG image with the result to this `file`")
	cli.CompleteWords(root, "revision", wire.RevisionStateless, wire.RevisionLegacy)
	_ = root.MarkFlagFilename("junit", "xml")
	_ = root.MarkFlagFilename("badge", "svg")
	c.Root(root, "text", "json")
	return root
}

// rejectMisspelling rejects an argument that is probably a misspelled verb, such as version.
func rejectMisspelling(cmd *cobra.Command, args []string) error {
	if cmd.ArgsLenAtDash() == 0 || len(args) == 0 || cli.NearVerbs(cmd, args[0]) == "" {
		return nil
	}
	return cli.UnknownVerb(cmd, args)
}

// secretVariable is the environment variable that replaces --secret, which would be visible in the process list.
const secretVariable = childenv.Secret

// These flags apply to only one role.
var (
	serverOnly = []string{"arg", "wait", "revision", "listen", "public-url", "tls-cert", "tls-key", "ssrf", "slow", "restart", "emit", "allow-quiet", "token",
		"other-token"}
	receiverOnly = []string{"secret", "subscription", "data"}
)

// These exit codes are in addition to those of package cli.
const (
	exitConform    = 6 // a requirement is violated
	exitUnfinished = 8 // nothing is violated, but the run ended before it had judged everything
)

// refuseFlags rejects flags of another role. format is the error message with %s for the flag.
func refuseFlags(cmd *cobra.Command, names []string, format string) error {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return cli.Usagef(format, name)
		}
	}
	return nil
}

// reporting describes how to report a run. accepted contains the names of checks that may fail. junit and badge are
// optional files to which the report is also written.
type reporting struct {
	accepted     []string
	junit, badge string
}

// check returns an error if no check has an accepted name.
func (r reporting) check(checks []verdict.Check) error {
	var names []string
	for _, c := range checks {
		names = append(names, c.Name)
	}
	for _, name := range r.accepted {
		if slices.Contains(names, name) {
			continue
		}
		if near := suggest.Nearest(name, names); near != "" {
			return cli.Usagef("--accept %s: no check has this name; did you mean %s?", name, near)
		}
		return cli.Usagef("--accept %s: no check has this name; the report shows the names", name)
	}
	return nil
}

func (c *command) conform(ctx context.Context, o conform.Options, reported reporting) error {
	if o.SSRF && o.Receiver.Listen == "" {
		return cli.Usagef("--ssrf goes with --listen: it is about subscriptions by webhook")
	}
	o.Stderr = c.Stderr
	return c.runChecks(ctx, "server", conform.Checks(), reported, func(ctx context.Context) (*verdict.Report, error) { return conform.Run(ctx, o) })
}

// runChecks runs the checks and writes the report. what describes the program under test.
func (c *command) runChecks(ctx context.Context, what string, checks []verdict.Check, reported reporting,
	judge func(context.Context) (*verdict.Report, error)) error {
	if err := reported.check(checks); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second Ctrl-C ends the process immediately, in case the server delays the shutdown.
	context.AfterFunc(ctx, stop)
	report, err := judge(ctx)
	if report == nil {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		return err
	}
	report.Accept(reported.accepted)
	if err := writeTo("junit", reported.junit, report.WriteJUnit); err != nil {
		return err
	}
	// A badge for an interrupted run would be misleading.
	if ctx.Err() == nil {
		if err := writeTo("badge", reported.badge, func(w io.Writer) error { return report.WriteBadge(w, what) }); err != nil {
			return err
		}
	}
	if c.Format == "json" {
		err = c.PrintDocument(report)
	} else {
		err = report.WriteText(c.Stdout, c.Quiet, c.paintOutcome)
	}
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return errors.New("interrupted: not all requirements were tried")
	case report.Failed > 0:
		return cli.Silent(exitConform)
	case report.Unfinished != nil:
		return cli.Silent(exitUnfinished)
	}
	return nil
}

// writeTo writes the file that a flag names. It does nothing if file is empty.
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

// outcomeColors maps outcomes to ANSI colors: green, red and yellow. Skipped and unjudged checks are dim.
var outcomeColors = map[verdict.Outcome]string{verdict.Pass: "32", verdict.Fail: "31", verdict.Advice: "33",
	verdict.Skip: "2", verdict.Unjudged: "2", verdict.Accepted: "33"}

// paintOutcome colors an outcome if standard output is a terminal.
func (c *command) paintOutcome(o verdict.Outcome, text string) string {
	if !c.Colored(c.Stdout) {
		return text
	}
	return "\x1b[" + outcomeColors[o] + "m" + text + "\x1b[0m"
}
