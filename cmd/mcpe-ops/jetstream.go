package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
)

// natsSchemes are the URL schemes that nats.go accepts.
var natsSchemes = []string{"nats", "tls", "ws", "wss"}

// isNATS reports whether text is the URL of a NATS server or a comma-separated list of such URLs.
func isNATS(text string) bool {
	first, _, _ := strings.Cut(text, ",")
	u, err := url.Parse(first)
	return err == nil && slices.Contains(natsSchemes, u.Scheme)
}

// jetstreamProgram is the program that diagnoses stores on NATS JetStream. It is part of another module, which requires
// nats.go.
const jetstreamProgram = "mcpe-jetstream"

// jetstreamGrace is how long the program may take to exit after an interrupt.
const jetstreamGrace = 5 * time.Second

// jetstream runs mcpe-jetstream doctor and returns its exit code.
func (d *diagnosis) jetstream(ctx context.Context, given func(flag string) bool, passed []string) error {
	for _, name := range []string{"schema", "outbox"} {
		if given(name) {
			return cli.Usagef("--%s is for a store in PostgreSQL", name)
		}
	}
	path, err := exec.LookPath(jetstreamProgram)
	if err != nil {
		return fmt.Errorf("stores on NATS JetStream need %s, which is not on the PATH; install it with: %s", jetstreamProgram, d.installJetstream())
	}
	args := []string{"doctor"}
	if given("lease") {
		args = append(args, "-lease", d.Lease.String())
	}
	if d.strict {
		args = append(args, "-strict")
	}
	if d.Format == "json" {
		args = append(args, "-json")
	}
	cmd := exec.CommandContext(ctx, path, append(args, passed...)...)
	cmd.Env = append(os.Environ(), "NATS_URL="+d.URL) // not on the command line, which other users can read: it may contain a password
	cmd.Stdout, cmd.Stderr = d.command.Stdout, d.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = jetstreamGrace
	err = cmd.Run()
	if exited, ok := errors.AsType[*exec.ExitError](err); ok && exited.Exited() {
		return cli.Silent(exited.ExitCode())
	}
	return err
}

// installJetstream returns the command that installs the same version of mcpe-jetstream.
func (d *diagnosis) installJetstream() string {
	const module = "runtime/store/jetstream"
	if d.Version.Devel {
		return "go install ./cmd/" + jetstreamProgram + " in " + module + " of a checkout of mcpe-gen"
	}
	return "go install " + cli.Module + "/" + module + "/cmd/" + jetstreamProgram + "@" + d.Version.Text
}
