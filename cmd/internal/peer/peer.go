// Package peer connects the commands to an MCP server, either at a URL or as a child process. The verbs import, listen
// and conform use it.
package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/childenv"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
)

// A Target names a server. Exactly one of URL and Command must be set.
type Target struct {
	// URL is the server's Streamable HTTP endpoint.
	URL string
	// Command is a program with its arguments that speaks MCP on standard input and output.
	Command []string
	// Dir is the working directory of Command. If it is empty, the current directory is used.
	Dir string
	// Token is a bearer token for URL. If it is empty, no token is sent.
	Token string
	// Secrets names additional variables to remove from Command's environment because they contain tokens of other
	// servers. The variables of package childenv are always removed.
	Secrets []string
}

// IsURL reports whether s looks like the URL of a server rather than a name or a file.
func IsURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// Check returns an error if the target is invalid.
func (t Target) Check() error {
	switch {
	case t.URL == "" && len(t.Command) == 0:
		return errors.New("name a server: its URL, or after -- the command that starts it")
	case t.URL != "" && len(t.Command) > 0:
		return errors.New("name one server, by URL or by command")
	case t.URL != "" && !IsURL(t.URL):
		return fmt.Errorf("%q is not the URL of a server: it begins with http:// or https://", t.URL)
	case t.URL == "" && t.Token != "":
		return errors.New("--token is sent over HTTP only; a command gets secrets from its environment")
	}
	return nil
}

// String returns the server's name without its user, password, query and arguments, which may be secret.
func (t Target) String() string {
	if t.URL == "" {
		return filepath.Base(t.Command[0])
	}
	u, err := url.Parse(t.URL)
	if err != nil {
		return "the server"
	}
	u.User, u.RawQuery, u.Fragment, u.ForceQuery = nil, "", "", false
	return u.String()
}

// Connect connects to the server. Without a logger it does not log. The commands print the messages that a user needs.
func (t Target) Connect(ctx context.Context, o client.Options) (*client.Client, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c, err := client.Connect(ctx, t.transport(o.Logger), o)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if op, ok := errors.AsType[*net.OpError](err); ok {
			err = op // the outer layers add the same text for every address
		}
		return nil, t.Hinted(fmt.Errorf("connecting to %s: %w", t, err))
	}
	return c, nil
}

// Hinted adds a likely correction to a connection error. Most MCP servers are at /mcp, and only that path responds.
func (t Target) Hinted(err error) error {
	u, parse := url.Parse(t.URL)
	if t.URL == "" || parse != nil || strings.Trim(u.Path, "/") != "" || strings.Contains(err.Error(), "nauthorized") {
		return err
	}
	u.User, u.RawQuery, u.Fragment, u.ForceQuery = nil, "", "", false
	u.Path = "/mcp"
	return fmt.Errorf("%w (did you mean %s? most servers answer there)", err, u)
}

func (t Target) transport(log *slog.Logger) mcp.Transport {
	if t.URL == "" {
		p := client.Command(t.Command[0], t.Command[1:]...)
		p.Logger, p.Cmd.Dir = log, t.Dir
		p.Cmd.Env = childenv.WithoutSecrets(p.Cmd.Environ(), t.Secrets...)
		return p
	}
	hc := &http.Client{}
	if t.Token != "" {
		home, _ := url.Parse(t.URL)
		hc.Transport = &bearer{token: t.Token, home: home}
	}
	return client.HTTP(t.URL, hc)
}

// A bearer is an HTTP transport that adds the token only to requests for its server. A redirect therefore does not send
// it elsewhere.
type bearer struct {
	token string
	home  *url.URL
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == b.home.Scheme && r.URL.Host == b.home.Host {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return http.DefaultTransport.RoundTrip(r)
}
