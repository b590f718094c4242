package mcpe

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/mcpe-gen/mcpe-gen/internal/procgroup"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
)

// BashOptions configures handlers that run commands. A command runs without a shell, with its arguments unchanged. The
// subscriber, often a model, chooses arguments that match Args. Many commands have options that run another command or
// write a file (find -exec, tar --checkpoint-action, sort -o), and a shell or an interpreter can run any code. See
// MCPE-HAN-1.
type BashOptions struct {
	// Allow lists the names of the allowed commands. [New] looks up each command in PATH. A command without an entry in
	// Args takes no arguments.
	Allow []string
	// Args maps a command's name in Allow to patterns of its whole list of arguments. "*" matches one plain argument: it
	// is not empty, does not begin or end with white space, does not begin with "-", "+" or "@", and contains neither
	// "=" nor control characters. "**" matches any number of plain arguments. "{event}" at the end of a pattern matches
	// the event, which a handler with input "args" appends. Any other word matches itself:
	//
	//	Args: map[string][][]string{"deploy": {{"--dry-run", "*"}, {"status"}, {"notify", "{event}"}}}
	Args map[string][][]string
	// Remote allows such handlers for callers over HTTP, not only for the parent process over stdio.
	Remote bool
	// Dirs lists the allowed working directories, including their subdirectories. The first is the default. If Dirs is
	// empty, all directories are allowed. Dirs does not confine a command, which can read and write all files that the
	// server's user can.
	Dirs []string
	// Env is the environment of every command, as "NAME=value". Commands do not inherit the server's environment. By
	// default, it contains only PATH.
	Env []string
	// AllowEnv lists the environment variables that a subscriber may set.
	AllowEnv []string
	// Timeout is the default timeout of a handler (default 30 s). MaxTimeout is its maximum timeout (default 5 min).
	Timeout, MaxTimeout time.Duration
	// MaxOutput is the maximum number of bytes of output to log; default 64 KiB.
	MaxOutput int
}

// Ways to pass the event to a command, with the names used by the original implementation.
const (
	inputStdin = "stdin"
	inputEnv   = "env"
	inputArgs  = "args"

	// maxVariable is the size limit for one environment variable or argument, with a margin below the kernel's limit.
	maxVariable = 100 << 10
	// outputDelay is how long to wait for output after a command has exited.
	outputDelay = time.Second
)

type bash struct {
	o     BashOptions
	paths map[string]string
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func newBash(o BashOptions) (*bash, error) {
	if !procgroup.Supported {
		return nil, errors.New("commands cannot be run safely on this operating system")
	}
	b := &bash{o: o, paths: map[string]string{}}
	for _, name := range o.Allow {
		path, err := exec.LookPath(name)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return nil, fmt.Errorf("allowed command %q: %w", name, err)
		}
		b.paths[name] = path
	}
	args, err := b.patterns(o.Args)
	if err != nil {
		return nil, err
	}
	// Do not keep the caller's slices.
	b.o.Args = args
	b.o.Dirs, b.o.Env, b.o.AllowEnv = slices.Clone(o.Dirs), slices.Clone(o.Env), slices.Clone(o.AllowEnv)
	if len(o.Dirs) == 0 {
		b.o.Dirs = []string{"/"}
	}
	for i, dir := range b.o.Dirs {
		abs, err := filepath.EvalSymlinks(dir)
		if err == nil {
			abs, err = filepath.Abs(abs)
		}
		if err != nil {
			return nil, fmt.Errorf("directory of commands: %w", err)
		}
		b.o.Dirs[i] = abs
	}
	if o.Env == nil {
		b.o.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	}
	b.o.Timeout = cmp.Or(max(o.Timeout, 0), 30*time.Second)
	b.o.MaxTimeout = cmp.Or(max(o.MaxTimeout, 0), 5*time.Minute)
	b.o.MaxOutput = cmp.Or(max(o.MaxOutput, 0), 64<<10)
	return b, nil
}

func (b *bash) timeout(h *mcpewire.Handler) time.Duration {
	return handlerTimeout(h, b.o.Timeout, b.o.MaxTimeout)
}

func (b *bash) check(o object, h *mcpewire.Handler, local bool) (err *refusal) {
	if !local && !b.o.Remote {
		return invalidField(o.path("type"), "handlers that run commands are not allowed to remote clients")
	}
	if h.Command, err = o.text("command"); err != nil {
		return err
	}
	if b.paths[h.Command] == "" {
		return invalidField(o.path("command"), "%.64q is not an allowed command", h.Command)
	}
	if h.Args, _, err = o.stringList("args"); err != nil {
		return err
	}
	if len(h.Args) > maxArgs || slices.ContainsFunc(h.Args, func(s string) bool { return strings.ContainsRune(s, 0) }) {
		return invalidField(o.path("args"), "must be at most %d strings without zero bytes", maxArgs)
	}
	if h.Cwd, err = o.text("cwd"); err != nil {
		return err
	}
	if _, bad := b.resolveDir(h.Cwd); bad != nil {
		return invalidField(o.path("cwd"), "is not a directory that is allowed here")
	}
	if h.Env, err = o.table("env"); err != nil {
		return err
	}
	for name, value := range h.Env {
		if !variableName.MatchString(name) || !slices.Contains(b.o.AllowEnv, name) || strings.ContainsRune(value, 0) {
			return invalidField(o.path("env"), "%.64q may not be set here", name)
		}
	}
	if h.Input, err = o.text("input"); err != nil {
		return err
	}
	h.Input = cmp.Or(h.Input, inputStdin)
	if inputs := []string{inputStdin, inputEnv, inputArgs}; !slices.Contains(inputs, h.Input) {
		return invalidField(o.path("input"), "%.32q is not one of %s", h.Input, strings.Join(inputs, ", "))
	}
	if !b.allowsArgs(h) {
		return invalidField(o.path("args"), "%.64q does not take these arguments here, with the event as %s", h.Command, h.Input)
	}
	return nil
}

// Wildcards in BashOptions.Args.
const (
	anyArg   = "*"
	anyArgs  = "**"
	eventArg = "{event}"
)

// cutEvent removes the event from the end of a pattern. It reports whether it was there.
func cutEvent(pattern []string) (words []string, found bool) {
	if n := len(pattern); n > 0 && pattern[n-1] == eventArg {
		return pattern[:n-1], true
	}
	return pattern, false
}

// patterns copies Args. It returns an error for a command that is not allowed, or for a wildcard at a wrong place of a
// pattern.
func (b *bash) patterns(given map[string][][]string) (map[string][][]string, error) {
	copied := map[string][][]string{}
	for name, patterns := range given {
		if b.paths[name] == "" {
			return nil, fmt.Errorf("arguments are given for %q, which is not an allowed command", name)
		}
		for _, pattern := range patterns {
			words, _ := cutEvent(pattern)
			if slices.Contains(words, eventArg) {
				return nil, fmt.Errorf("arguments of %q: %s must be the last word of a pattern", name, eventArg)
			}
			if i := slices.Index(words, anyArgs); i >= 0 && i < len(words)-1 {
				return nil, fmt.Errorf("arguments of %q: only %s can follow ** in a pattern", name, eventArg)
			}
			copied[name] = append(copied[name], slices.Clone(pattern))
		}
	}
	return copied, nil
}

// allowsArgs reports whether a handler's arguments, with the event if it is one, match a pattern of its command.
func (b *bash) allowsArgs(h *mcpewire.Handler) bool {
	patterns := b.o.Args[h.Command]
	if len(patterns) == 0 {
		return len(h.Args) == 0 && h.Input != inputArgs
	}
	return slices.ContainsFunc(patterns, func(pattern []string) bool {
		words, event := cutEvent(pattern)
		return event == (h.Input == inputArgs) && matchArgs(words, h.Args)
	})
}

func matchArgs(pattern, args []string) bool {
	for i, word := range pattern {
		rest := args[min(i, len(args)):]
		switch {
		case word == anyArgs:
			return !slices.ContainsFunc(rest, isSpecial)
		case len(rest) == 0 || word == anyArg && isSpecial(rest[0]) || word != anyArg && word != rest[0]:
			return false
		}
	}
	return len(args) == len(pattern)
}

// isSpecial reports whether a command may read an argument as an option, an assignment or the name of a file with
// arguments.
func isSpecial(arg string) bool {
	return arg == "" || strings.ContainsAny(arg[:1], "-+@") || strings.TrimSpace(arg) != arg ||
		strings.ContainsFunc(arg, func(r rune) bool { return r == '=' || unicode.IsControl(r) })
}

// resolveDir resolves symbolic links in a working directory and checks that the directory is allowed.
func (b *bash) resolveDir(cwd string) (string, error) {
	if cwd == "" {
		return b.o.Dirs[0], nil
	}
	if !filepath.IsAbs(cwd) {
		cwd = filepath.Join(b.o.Dirs[0], cwd)
	}
	path, err := filepath.EvalSymlinks(cwd)
	if err != nil {
		return "", err
	}
	for _, dir := range b.o.Dirs {
		if path == dir || dir == "/" || strings.HasPrefix(path, dir+string(filepath.Separator)) {
			return path, nil
		}
	}
	return "", errors.New("not an allowed directory")
}

// run runs the command, and then kills its process group.
func (b *bash) run(ctx context.Context, r *run) error {
	h := r.handler
	path := b.paths[h.Command]
	if path == "" {
		return fmt.Errorf("%q is no longer an allowed command", h.Command)
	}
	if !b.allowsArgs(h) {
		return fmt.Errorf("%q no longer takes the arguments of the handler", h.Command)
	}
	dir, err := b.resolveDir(h.Cwd)
	if err != nil {
		return fmt.Errorf("working directory: %w", err)
	}
	body := encode(&r.event)
	args := slices.Clone(h.Args)
	if h.Input == inputArgs {
		if len(body) > maxVariable {
			return fmt.Errorf("an event of %d bytes is too large for an argument", len(body))
		}
		args = append(args, string(body))
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	cmd.Env = slices.Clone(b.o.Env)
	for name, value := range h.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, eventEnv(&r.event, body)...)
	if h.Input == inputEnv && len(body) > maxVariable {
		return fmt.Errorf("an event of %d bytes is too large for the environment", len(body))
	}
	if h.Input == inputStdin {
		cmd.Stdin = bytes.NewReader(body)
	}
	out := &limitedBuffer{limit: b.o.MaxOutput}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = outputDelay
	procgroup.Lead(cmd)
	cmd.Cancel = func() error { return procgroup.Kill(cmd.Process) }
	if err := cmd.Start(); err != nil {
		return err
	}
	err = cmd.Wait()
	_ = procgroup.Kill(cmd.Process) // the remaining processes of the group
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("%s: %w; output (%d bytes): %q", h.Command, err, out.total, out.kept.Bytes()[:min(out.kept.Len(), 512)])
	}
	return nil
}

// eventEnv returns the environment variables that describe the event.
func eventEnv(e *mcpewire.Event, body []byte) []string {
	env := []string{"MCPE_EVENT_ID=" + e.ID, "MCPE_EVENT_TYPE=" + e.Type, "MCPE_EVENT_PRIORITY=" + e.Metadata.Priority,
		"MCPE_EVENT_TIMESTAMP=" + e.Metadata.Timestamp, "MCPE_EVENT_TAGS=" + strings.Join(e.Metadata.Tags, ",")}
	if len(body) <= maxVariable {
		env = append(env, "MCPE_EVENT_DATA="+string(e.Data), "MCPE_EVENT_JSON="+string(body))
	}
	return slices.DeleteFunc(env, func(v string) bool { return strings.ContainsRune(v, 0) || len(v) > maxVariable+64 })
}

// A limitedBuffer stores the first limit bytes written to it and counts the rest. A command that writes a lot of output
// therefore neither blocks nor uses much memory.
type limitedBuffer struct {
	limit int
	kept  bytes.Buffer
	total int
}

func (w *limitedBuffer) Write(p []byte) (int, error) {
	w.total += len(p)
	if room := w.limit - w.kept.Len(); room > 0 {
		w.kept.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
