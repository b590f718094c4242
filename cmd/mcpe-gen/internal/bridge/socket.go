package bridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/mcpe-gen/mcpe-gen/internal/atomicfile"
)

// maxSocketPath is the maximum length in bytes of a socket path on the most restrictive system.
const maxSocketPath = 103

// Names in the state directory. runDir is accessible only to the user.
const (
	runDir     = "run"
	socketFile = "socket"
	// elsewhereFile contains the socket's path if the path in runDir would be too long.
	elsewhereFile = "elsewhere"
)

// A meeting connects the bridges of a state directory.
type meeting interface {
	// The leader calls listen, and the other bridges call dial.
	listen(dir string) (net.Listener, error)
	dial(ctx context.Context, dir string) (net.Conn, error)
}

// sockets implements meeting with a socket in the state directory.
type sockets struct{}

// A socket is the leader's listener.
type socket struct {
	net.Listener
	// temporary and pathFile are paths that are removed when the listener is closed. They are empty if the socket is in
	// the state directory.
	temporary, pathFile string
}

// listen creates the socket of a state directory. The caller must hold the directory's lock. It replaces a socket left
// behind by a crash.
func (sockets) listen(dir string) (_ net.Listener, err error) {
	run := filepath.Join(dir, runDir)
	if err := os.MkdirAll(run, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(run, 0o700); err != nil {
		return nil, err
	}
	s := &socket{}
	path := filepath.Join(run, socketFile)
	if len(path) > maxSocketPath {
		s.pathFile = filepath.Join(run, elsewhereFile)
		removeElsewhere(s.pathFile)
		if s.temporary, err = os.MkdirTemp("", "mcpe-gen-"); err != nil {
			return nil, err
		}
		path = filepath.Join(s.temporary, socketFile)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if s.Listener, err = net.Listen("unix", path); err != nil {
		return nil, errors.Join(err, s.clean())
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if s.pathFile != "" {
		if err := atomicfile.Write(s.pathFile, []byte(path)); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// Close implements [net.Listener].
func (s *socket) Close() error { return errors.Join(s.Listener.Close(), s.clean()) }

func (s *socket) clean() error {
	if s.temporary == "" {
		return nil
	}
	err := os.Remove(s.pathFile)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, os.Remove(s.temporary))
}

// removeElsewhere removes files that a crash left behind in the directory for temporary files.
func removeElsewhere(note string) {
	path, err := os.ReadFile(note)
	if err != nil || filepath.Base(string(path)) != socketFile {
		return
	}
	// Keep files that another user owns.
	_ = os.Remove(string(path))
	_ = os.Remove(filepath.Dir(string(path)))
}

// dial connects to the leader.
func (sockets) dial(ctx context.Context, dir string) (net.Conn, error) {
	path := filepath.Join(dir, runDir, socketFile)
	if len(path) > maxSocketPath {
		elsewhere, err := os.ReadFile(filepath.Join(dir, runDir, elsewhereFile))
		if err != nil {
			return nil, err
		}
		if path = string(elsewhere); len(path) > maxSocketPath {
			return nil, fmt.Errorf("the path of the socket has %d bytes, and %d are allowed", len(path), maxSocketPath)
		}
	}
	return new(net.Dialer).DialContext(ctx, "unix", path)
}
