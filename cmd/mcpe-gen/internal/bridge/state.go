package bridge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/config"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/inbox"
	"github.com/mcpe-gen/mcpe-gen/internal/filelock"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/file"
)

// A state is the persistent state of a bridge. Only the leader uses its directory.
type state struct {
	lock    *filelock.Lock
	cursors *file.Cursors
	box     *inbox.Inbox
}

// openState opens the state directory, creating it if necessary. The error is a [*filelock.HeldError] if another bridge
// holds it.
func openState(ctx context.Context, dir string, l config.Limits) (_ *state, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path, err := filelock.Resolve(filepath.Join(dir, "bridge"))
	if err != nil {
		return nil, err
	}
	s := new(state)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.lock, err = filelock.Acquire(ctx, path, 0); err != nil {
		return nil, err
	}
	if s.cursors, err = file.OpenCursors(filepath.Join(dir, "cursors")); err != nil {
		return nil, err
	}
	s.box, err = inbox.Open(ctx, filepath.Join(dir, "inbox"), inbox.Options{Batches: l.Inbox, Bytes: l.InboxBytes, Events: l.EventsPerBatch})
	return s, err
}

func (s *state) close() error {
	var errs []error
	if s.box != nil {
		errs = append(errs, s.box.Close())
	}
	if s.cursors != nil {
		errs = append(errs, s.cursors.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Release())
	}
	return errors.Join(errs...)
}

// StateDir returns the default state directory of a bridge. It is in $XDG_STATE_HOME or the system's equivalent. Its
// name is derived from the path of the configuration, or from the URL and the events.
func StateDir(c *config.Config) (string, error) {
	base, err := stateHome()
	if err != nil {
		return "", err
	}
	name, what := "bridge", c.Path
	if what != "" {
		if what, err = filepath.Abs(what); err != nil {
			return "", err
		}
		name = strings.TrimSuffix(filepath.Base(what), filepath.Ext(what))
	} else {
		var parts []string
		for _, s := range c.Servers {
			parts = append(parts, s.Target.URL)
		}
		for _, s := range c.Subscriptions {
			parts = append(parts, s.Event)
		}
		what = strings.Join(parts, "\n")
	}
	sum := sha256.Sum256([]byte(what))
	return filepath.Join(base, "mcpe-gen", "bridge", name+"-"+hex.EncodeToString(sum[:6])), nil
}

func stateHome() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		return os.UserConfigDir() // because a cache may be emptied
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no directory for the state: %w; name one with --state", err)
	}
	return filepath.Join(home, ".local", "state"), nil
}

// LockInstalls keeps other processes of this user from installing a bridge. The lock is in the state directory, because
// agents create their locks next to their files, such as .claude.json.lock.
func LockInstalls(ctx context.Context) (*filelock.Lock, error) {
	base, err := stateHome()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(base, "mcpe-gen", "bridge")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path, err := filelock.Resolve(filepath.Join(dir, "install"))
	if err != nil {
		return nil, err
	}
	return filelock.Acquire(ctx, path, filelock.DefaultWait)
}
