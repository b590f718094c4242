package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/operate"
)

// adminTokenVariable is where the operator's token stands. It is never the token of listen.
const adminTokenVariable = "MCPE_ADMIN_TOKEN"

const adminHelp = `Ask the operator's API of a server (package runtime/admin) who is subscribed and
connected, what was sent and what came back, and do something about it.

  types                     the event types
  subscriptions             webhook subscriptions, by the filters below
  show ID                   one of them
  attempts ID               what was sent to it, and what came back
  connections               open streams and pollers
  tail                      occurrences as they pass, of one --event or all
  retry ID EVENT-ID         send one event again
  pause ID, unpause ID      hold deliveries back, and let them go on
  resume ID                 end a suspension
  replay ID CURSOR          deliver again everything after a cursor
  end ID                    end a subscription, for good
  disconnect ID             end a stream or a poller's lease
  revoke PRINCIPAL          end all that a principal has, for good
  outbox                    what transactions emitted and was put aside
  putback ID, drop ID       let that be looked at again, or delete it

On a terminal end, revoke and drop ask first; --yes does not.

The token comes from --token-file or the environment's ` + adminTokenVariable + `. It goes to
the URL's origin only: redirects are refused, and plain http reaches loopback only.`

func newAdmin(c *command) *cobra.Command {
	var o operate.Options
	var tokenFile string
	var yes bool
	filters := map[string]*string{}
	cmd := &cobra.Command{
		Use:   "admin URL VERB [ARGUMENT...]",
		Short: "Operate a server: subscriptions, attempts, retries",
		Long:  adminHelp,
		Example: `  mcpe-gen admin https://ops.example.com/events subscriptions --state suspended
  mcpe-gen admin https://ops.example.com/events attempts sub_4f0c
  mcpe-gen admin https://ops.example.com/events retry sub_4f0c evt_1 --token-file token`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usagef("admin needs a URL and a verb: %s", strings.Join(operate.Verbs, ", "))
			}
			o.URL, o.Verb, o.Args = args[0], args[1], args[2:]
			o.Token = os.Getenv(adminTokenVariable)
			if tokenFile != "" {
				b, err := os.ReadFile(tokenFile)
				if err != nil {
					return refuse(fmt.Errorf("--token-file: %w", err))
				}
				o.Token = strings.TrimSpace(string(b))
			}
			o.Filters = map[string]string{}
			for name, value := range filters {
				if *value != "" {
					o.Filters[name] = *value
				}
			}
			o.JSON, o.Stdout = c.format == "json", c.stdout
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop)
			if !yes && isTerminal(os.Stdin) && isTerminal(c.stderr) {
				o.Confirm = c.confirm
			}
			err := operate.Run(ctx, o)
			if wrong, ok := errors.AsType[*operate.UsageError](err); ok {
				return refuse(wrong)
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&tokenFile, "token-file", "", "`file` that holds the operator's token (default: the environment's "+adminTokenVariable+")")
	flags.BoolVarP(&yes, "yes", "y", false, "do not ask before end and revoke, which a terminal otherwise does")
	for _, f := range []struct{ flag, name, usage string }{
		{"principal", "principal", "of this `principal` only"},
		{"event", "event", "to this `event` type only"},
		{"state", "state", "in this `state` only: active, suspended or paused"},
		{"url", "url", "with a callback whose URL has this `part`"},
		{"min-behind", "minBehind", "at least this `number` of entries behind"},
		{"mode", "mode", "connections of this `mode` only: push or poll"},
	} {
		filters[f.name] = flags.String(f.flag, "", f.usage)
	}
	_ = cmd.MarkFlagFilename("token-file")
	return cmd
}
