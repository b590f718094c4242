// Command watch subscribes to an event type of any MCP server that supports the Events extension. It prints a line of
// JSON for each event.
//
//	watch -url http://127.0.0.1:8080/mcp -event push -arg repo=octo/hello
//	watch -event push -- ./github -stdio
//	watch -url https://events.example/mcp -event push -listen :8443 -public-url https://me.example:8443 -tls-cert c.pem -tls-key k.pem
//
// The last form receives events by webhook, so the server must be able to reach this program. With -cursor-file, it
// also stores its callback, so that the next run continues the subscription.
//
// It does not know the event types at compile time: it reads the server's descriptors and uses the client's
// dynamic subscription. Programs that know their events use generated stubs instead.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/file"
)

// options contains the flags and the arguments after "--".
type options struct {
	url, token, event, mode, cursorFile string
	args                                []string
	count                               int
	command                             []string
	receiver                            receiverOptions
}

// errUsage reports an invalid command line. For this error, main exits with 2.
var errUsage = errors.New("usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "watch:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "watch:", err)
		os.Exit(1)
	}
}

// parse parses the command line.
func parse(argv []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("watch", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.url, "url", "", "URL of a server on Streamable HTTP; otherwise give a command after --")
	fs.StringVar(&o.token, "token", "", "bearer token sent with every request to -url, but to no other origin")
	fs.StringVar(&o.event, "event", "", "event type to subscribe to")
	fs.StringVar(&o.mode, "mode", "auto", "delivery mode: auto, poll, push or webhook")
	fs.StringVar(&o.cursorFile, "cursor-file", "", "file that keeps the cursor, so that the next run continues where this one ended")
	fs.IntVar(&o.count, "n", 0, "exit after this many events; 0 means never")
	o.receiver.register(fs)
	fs.Func("arg", "subscription argument as key=value; may be given several times", func(s string) error {
		if !strings.Contains(s, "=") {
			return errors.New("want key=value")
		}
		o.args = append(o.args, s)
		return nil
	})
	fs.Usage = func() {
		fmt.Fprint(stderr, "Usage: watch -event NAME [flags] (-url URL | -- command args…)\n\nFlags:\n")
		fs.PrintDefaults()
	}
	if err := fs.Parse(argv); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, fmt.Errorf("%w: %w", errUsage, err)
	}
	o.command = fs.Args()
	switch {
	case (o.url == "") == (len(o.command) == 0):
		return o, fmt.Errorf("%w: give either -url or a command after --", errUsage)
	case o.event == "":
		return o, fmt.Errorf("%w: -event is missing", errUsage)
	case !slices.Contains([]string{"auto", events.ModePoll, events.ModePush, events.ModeWebhook}, o.mode):
		return o, fmt.Errorf("%w: -mode %q is none of auto, poll, push, webhook", errUsage, o.mode)
	case o.mode == events.ModeWebhook && o.receiver.listen == "":
		return o, fmt.Errorf("%w: -mode webhook needs -listen", errUsage)
	}
	if err := o.receiver.check(); err != nil {
		return o, fmt.Errorf("%w: %w", errUsage, err)
	}
	return o, nil
}

func run(ctx context.Context, argv []string, stdout, stderr io.Writer) error {
	o, err := parse(argv, stderr)
	if err != nil {
		return err
	}
	var cursors clientstore.CursorStore
	if o.cursorFile != "" {
		f, err := file.OpenCursors(o.cursorFile)
		if err != nil {
			return err
		}
		defer f.Close()
		cursors = f
	}
	hooks, err := o.receiver.open()
	if err != nil {
		return err
	}
	c, err := client.Connect(ctx, o.transport(), client.Options{Cursors: cursors, Webhook: hooks})
	if err != nil {
		return ignoreCanceled(ctx, err)
	}
	defer c.Close()
	return ignoreCanceled(ctx, watch(ctx, c, o, stdout, stderr))
}

// ignoreCanceled returns err, or nil if a signal has ended ctx.
func ignoreCanceled(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (o options) transport() mcp.Transport {
	if o.url == "" {
		return client.Command(o.command[0], o.command[1:]...)
	}
	hc := &http.Client{}
	if o.token != "" {
		hc.Transport = &bearer{token: o.token, home: o.url}
	}
	return client.HTTP(o.url, hc)
}

// A bearer is a RoundTripper that adds the token only to requests to the server's origin, so that a redirect does not
// leak the token.
type bearer struct{ token, home string }

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if home, err := url.Parse(b.home); err == nil && r.URL.Scheme == home.Scheme && r.URL.Host == home.Host {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// A line is the output for an event.
type line struct {
	Mode    string          `json:"mode"`
	EventID string          `json:"eventId"`
	Name    string          `json:"name"`
	Data    json.RawMessage `json:"data"`
}

func watch(ctx context.Context, c *client.Client, o options, stdout, stderr io.Writer) error {
	catalog, err := c.List(ctx)
	if err != nil {
		return fmt.Errorf("list event types: %w", err)
	}
	i := slices.IndexFunc(catalog, func(d client.Descriptor) bool { return d.Name == o.event })
	if i < 0 {
		var names []string
		for _, d := range catalog {
			names = append(names, d.Name)
		}
		return fmt.Errorf("the server has no event type %q; it has: %s", o.event, strings.Join(names, ", "))
	}
	args, err := arguments(o.args, catalog[i].InputSchema)
	if err != nil {
		return err
	}
	var so []client.SubscribeOption
	if o.mode != "auto" {
		so = append(so, client.WithMode(o.mode))
	}
	if o.cursorFile != "" {
		so = append(so, client.WithCursorKey(o.event+" "+string(args)))
	}
	sub, err := client.Subscribe(ctx, c, client.Dynamic(o.event), args, so...)
	if err != nil {
		return err
	}
	defer sub.Close()
	fmt.Fprintf(stderr, "watch: subscribed to %s by %s\n", o.event, sub.Subscription().Mode())

	out := json.NewEncoder(stdout)
	out.SetEscapeHTML(false)
	seen := 0
	for ev, err := range sub.Events() {
		if client.Final(err) {
			return err
		}
		if err != nil {
			fmt.Fprintln(stderr, "watch:", err) // a gap, for example; the subscription continues
			continue
		}
		if err := out.Encode(line{sub.Subscription().Mode(), ev.ID, ev.Name, ev.Raw}); err != nil {
			return err
		}
		if seen++; seen == o.count {
			return sub.Subscription().Ack()
		}
	}
	return nil
}

// arguments encodes key=value pairs as JSON arguments. A value is JSON if the schema requires a type other than string,
// and a string otherwise.
func arguments(pairs []string, inputSchema json.RawMessage) (json.RawMessage, error) {
	var schema struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
	}
	if len(inputSchema) == 0 {
		inputSchema = json.RawMessage(`{}`) // a server without a schema accepts any arguments
	}
	// A schema that is not an object, such as true, does not describe individual arguments.
	if err := json.Unmarshal(inputSchema, &schema); err != nil && inputSchema[0] == '{' {
		return nil, fmt.Errorf("read inputSchema: %w", err)
	}
	args := map[string]json.RawMessage{}
	for _, p := range pairs {
		k, v, _ := strings.Cut(p, "=")
		switch t, _ := schema.Properties[k].Type.(string); t {
		case "integer", "number", "boolean", "array", "object":
			if !json.Valid([]byte(v)) {
				return nil, fmt.Errorf("argument %s: %q is not a JSON %s", k, v, t)
			}
			args[k] = json.RawMessage(v)
		default:
			b, err := json.Marshal(v)
			if err != nil {
				return nil, err
			}
			args[k] = b
		}
	}
	return json.Marshal(args)
}
