package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/config"
	"github.com/mcpe-gen/mcpe-gen/internal/childenv"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
)

const (
	// connectTime is the timeout for one attempt to connect.
	connectTime = 30 * time.Second
	// longPoll is how long a server should keep a poll pending.
	longPoll = 20 * time.Second
	// maxMessage is the maximum size of a message from a server, and of the pending data of a subscription.
	maxMessage = 8 << 20
	// maxToken is the maximum size of a token.
	maxToken = 64 << 10
)

// An upstream is a configured server with the connection that its subscriptions share.
type upstream struct {
	config.Server
	dir string // working directory of commands
	// secrets names the environment variables with tokens. They are not passed to commands.
	secrets []string
	dial    func(context.Context, peer.Target, client.Options) (*client.Client, error)
	turn    chan struct{} // held while connecting or closing; guards c
	c       *client.Client
}

func newUpstream(s config.Server, o Options) *upstream {
	d := &upstream{Server: s, dir: o.Config.Dir, secrets: o.Config.TokenVariables(), dial: o.dial, turn: make(chan struct{}, 1)}
	if d.dial == nil {
		d.dial = func(ctx context.Context, t peer.Target, o client.Options) (*client.Client, error) {
			return t.Connect(ctx, o)
		}
	}
	return d
}

// client returns the connection. It connects first if necessary.
func (s *upstream) client(ctx context.Context) (*client.Client, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s.c != nil {
		return s.c, nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	token, err := readToken(ctx, s.Token, s.dir, s.secrets)
	if err != nil {
		return nil, err
	}
	target := s.Target
	target.Token, target.Secrets = token, s.secrets
	s.c, err = s.dial(ctx, target, client.Options{LongPoll: longPoll, MaxMessage: maxMessage})
	return s.c, err
}

// dropConnection closes a broken connection so that the next call of client reconnects.
func (s *upstream) dropConnection(c *client.Client) {
	s.turn <- struct{}{}
	if s.c == c {
		s.c = nil
	}
	<-s.turn
	c.Close()
}

// close ends the connection.
func (s *upstream) close() {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.c != nil {
		s.c.Close()
		s.c = nil
	}
}

// readToken reads a token from its configured source. Its errors do not contain the token.
func readToken(ctx context.Context, t config.Token, dir string, secrets []string) (string, error) {
	var text []byte
	var from string
	switch {
	case t.Text != "":
		return t.Text, nil
	case t.Env != "":
		from, text = "the environment variable "+t.Env, []byte(os.Getenv(t.Env))
	case t.File != "":
		from = "the file " + t.File
		f, err := os.Open(t.File)
		if err != nil {
			return "", fmt.Errorf("reading the token: %w", err)
		}
		defer f.Close()
		if text, err = io.ReadAll(io.LimitReader(f, maxToken+1)); err != nil {
			return "", fmt.Errorf("reading the token: %w", err)
		}
	case len(t.Command) > 0:
		from = "the command " + t.Command[0]
		cmd := exec.CommandContext(ctx, t.Command[0], t.Command[1:]...)
		cmd.Dir, cmd.Stderr, cmd.WaitDelay = dir, os.Stderr, time.Second
		cmd.Env = childenv.WithoutSecrets(cmd.Environ(), secrets...)
		var out boundedBuffer
		cmd.Stdout = &out
		if err := cmd.Run(); err != nil {
			return "", fmt.Errorf("asking %s for the token: %w", from, err)
		}
		text = out.text
	default:
		return "", nil
	}
	token := strings.TrimSpace(string(text))
	switch {
	case token == "":
		return "", fmt.Errorf("there is no token in %s", from)
	case len(token) > maxToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return "", fmt.Errorf("the token from %s is not valid", from)
	}
	return token, nil
}

// A boundedBuffer is a writer that keeps at most maxToken bytes. Write is its only method so that the limit cannot be
// bypassed.
type boundedBuffer struct{ text []byte }

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if len(b.text)+len(p) > maxToken {
		return 0, errors.New("it prints too much")
	}
	b.text = append(b.text, p...)
	return len(p), nil
}
