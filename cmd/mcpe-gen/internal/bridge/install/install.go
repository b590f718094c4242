// Package install adds a bridge to the configuration file of a coding agent and preserves the rest of the file byte for
// byte. Start with [Agents], [Find] and [Agent.Plan]. [Change.Write] writes the file. For a file that does not parse,
// it returns an error with the line and column.
package install

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/atomicfile"
)

// An Agent is a coding agent with a configuration file.
type Agent struct {
	// Name is the name that a user types. Title is the vendor's name.
	Name, Title string
	// home and project are the paths of its file relative to the user's home directory and to a project. If the
	// environment variable homeVar is set, it replaces the directory of the path home.
	home, project, homeVar string
	// servers is the key of the servers in the file.
	servers string
	edit    func(f *file, e Entry) ([]byte, string, error)
	decode  func(text []byte) (map[string]any, error)
}

// Agents are the supported agents.
var Agents = []Agent{
	{Name: "claude", Title: "Claude Code", home: ".claude.json", project: ".mcp.json", homeVar: "CLAUDE_CONFIG_DIR", servers: serversKey, edit: editJSON, decode: decodeJSON},
	{Name: "codex", Title: "Codex CLI", home: ".codex/config.toml", project: ".codex/config.toml", homeVar: "CODEX_HOME", servers: "mcp_servers", edit: editTOML, decode: decodeTOML},
	{Name: "cursor", Title: "Cursor", home: ".cursor/mcp.json", project: ".cursor/mcp.json", servers: serversKey, edit: editJSON, decode: decodeJSON},
}

// Find returns the agent with the given name.
func Find(name string) (*Agent, error) {
	var names []string
	for i := range Agents {
		if Agents[i].Name == name {
			return &Agents[i], nil
		}
		names = append(names, Agents[i].Name)
	}
	return nil, fmt.Errorf("the agent %q is unknown; known are %s", name, strings.Join(names, ", "))
}

// An Entry is a bridge in an agent's configuration. It consists of a server name and the command that starts the
// server.
type Entry struct {
	Name    string
	Command string
	Args    []string
}

// Check returns an error unless the name has 1 to 64 ASCII letters, digits, - and _.
func (e Entry) Check() error {
	if e.Name == "" || len(e.Name) > 64 || strings.Trim(e.Name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		return fmt.Errorf("the name %q is not 1 to 64 ASCII letters, digits, - and _", e.Name)
	}
	return nil
}

// program is the name of the command in an entry that this package writes, and bridgeVerb is its first argument.
const (
	program    = "mcpe-gen"
	bridgeVerb = "bridge"
)

// isBridge reports whether an existing entry starts a bridge. The entry of another program keeps its environment, which
// may contain secrets.
func (e Entry) isBridge(entry map[string]any) bool {
	command, _ := entry["command"].(string)
	args, _ := entry["args"].([]any)
	ours := command == e.Command || strings.TrimSuffix(filepath.Base(command), ".exe") == program
	return ours && len(args) > 0 && args[0] == bridgeVerb
}

// verify reports whether after contains the entry e and otherwise the same as before.
func (a *Agent) verify(before, after []byte, e Entry) bool {
	old, err := a.decode(before)
	if err != nil {
		return false
	}
	now, err := a.decode(after)
	if err != nil {
		return false
	}
	servers, _ := now[a.servers].(map[string]any)
	entry, _ := servers[e.Name].(map[string]any)
	if entry["command"] != e.Command || fmt.Sprintf("%q", entry["args"]) != fmt.Sprintf("%q", e.Args) {
		return false
	}
	oldServers, exist := old[a.servers].(map[string]any)
	if was, ok := oldServers[e.Name].(map[string]any); ok {
		entry["command"], entry["args"] = was["command"], was["args"]
	} else if delete(servers, e.Name); !exist {
		delete(now, a.servers)
	}
	return fmt.Sprintf("%#v", old) == fmt.Sprintf("%#v", now) // NaN equals itself in this form
}

// A file is a configuration file that has been read.
type file struct {
	path string
	text []byte
}

// errorAt returns an error with the position of an offset in the file.
func (f *file) errorAt(offset int, format string, args ...any) error {
	before := string(f.text[:min(max(offset, 0), len(f.text))])
	line := strings.Count(before, "\n") + 1
	column := len([]rune(before[strings.LastIndexByte(before, '\n')+1:])) + 1
	return fmt.Errorf("%s:%d:%d: %s", f.path, line, column, fmt.Sprintf(format, args...))
}

// errTaken returns an error for an existing entry that is not a bridge.
func (f *file) errTaken(name string) error {
	return fmt.Errorf("%s: %q is another server; choose another name with --name; nothing was written", f.path, name)
}

// newline returns the line ending of the file.
func (f *file) newline() string {
	if strings.Contains(string(f.text), "\r\n") {
		return "\r\n"
	}
	return "\n"
}

// BackupSuffix is appended to the name of a file to form the name of its backup.
const BackupSuffix = ".before-mcpe-gen"

// A Change is a change to a configuration file. [Change.Write] writes it.
type Change struct {
	Path string
	// Exists reports whether the file exists. Current reports whether it needs no change.
	Exists, Current bool
	// Shown is the new or changed section of the file.
	Shown string

	given  string // the path before symbolic links are resolved
	before snapshot
	after  []byte
}

// A snapshot is a file as it was when it was read. If the file did not exist, info is nil.
type snapshot struct {
	path string // without symbolic links
	info fs.FileInfo
	text []byte
}

// takeSnapshot reads the file at a path.
func takeSnapshot(path string) (s snapshot, err error) {
	if s.path, err = resolve(path); err != nil {
		return s, err
	}
	info, err := os.Stat(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, nil
	case err != nil:
		return s, err
	case !info.Mode().IsRegular():
		return s, fmt.Errorf("%s is not a regular file", s.path)
	}
	s.info = info
	s.text, err = os.ReadFile(s.path)
	return s, err
}

// resolve returns an absolute path without symbolic links. The end of the path need not exist. It refuses a link to a
// file or directory that does not exist: a file in its place would be in the way when the target is created, for example
// by a checkout of the user's dotfiles.
func resolve(path string) (string, error) {
	for at := path; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at) {
			continue
		}
		whole, err := filepath.EvalSymlinks(at)
		if errors.Is(err, fs.ErrNotExist) {
			target, _ := os.Readlink(at)
			return "", fmt.Errorf("%s is a link to %s, which leads to nothing; nothing was written; create the target or remove the link", at, target)
		}
		return filepath.Join(whole, strings.TrimPrefix(path, at)), err
	}
}

// Plan returns the change that makes the agent start the bridge. It does not write the file. If project is empty, Plan
// uses the user's file.
func (a *Agent) Plan(project string, e Entry) (*Change, error) {
	if err := e.Check(); err != nil {
		return nil, err
	}
	path, err := a.path(project)
	if err != nil {
		return nil, err
	}
	before, err := takeSnapshot(path)
	if err != nil {
		return nil, err
	}
	c := &Change{Path: before.path, Exists: before.info != nil, given: path, before: before}
	if c.after, c.Shown, err = a.edit(&file{path: c.Path, text: before.text}, e); err != nil {
		return nil, err
	}
	if !a.verify(before.text, c.after, e) {
		return nil, fmt.Errorf("%s: %s has a form that this command does not change; nothing was written; write this by hand:\n%s", c.Path, a.servers, c.Shown)
	}
	c.Current = c.Exists && bytes.Equal(c.after, before.text)
	return c, nil
}

func (a *Agent) path(project string) (string, error) {
	if project != "" {
		return filepath.Abs(filepath.Join(project, filepath.FromSlash(a.project)))
	}
	if dir := os.Getenv(a.homeVar); a.homeVar != "" && dir != "" {
		return filepath.Abs(filepath.Join(dir, filepath.Base(a.home)))
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no home directory: %w; use --project", err)
	}
	return filepath.Abs(filepath.Join(home, filepath.FromSlash(a.home)))
}

// Write replaces the whole file, which keeps its mode. Before the first change, it makes a backup and returns its path.
// It returns an error if the file has changed since Plan.
func (c *Change) Write() (backup string, err error) {
	if c.Current {
		return "", c.unchanged()
	}
	if err := os.MkdirAll(filepath.Dir(c.Path), 0o700); err != nil {
		return "", err
	}
	mode := fs.FileMode(0o600)
	if c.Exists {
		mode = c.before.info.Mode().Perm()
		if backup, err = c.backUp(mode); err != nil {
			return "", err
		}
	}
	if err := atomicfile.WriteIf(c.Path, c.after, c.unchanged); err != nil {
		if backup != "" {
			os.Remove(backup) // the next change is the first
		}
		return "", err
	}
	return backup, os.Chmod(c.Path, mode)
}

// backUp makes the backup and returns its path, or "" if there is one already.
func (c *Change) backUp(mode fs.FileMode) (string, error) {
	path := c.Path + BackupSuffix
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := atomicfile.Write(path, c.before.text); err != nil {
		return "", err
	}
	return path, os.Chmod(path, mode)
}

// unchanged returns an error if the file or its content has changed since Plan.
func (c *Change) unchanged() error {
	now, err := takeSnapshot(c.given)
	if err != nil {
		return err
	}
	same := now.path == c.Path && bytes.Equal(now.text, c.before.text) && (now.info != nil) == c.Exists
	if !same || c.Exists && !os.SameFile(now.info, c.before.info) {
		return fmt.Errorf("%s has changed meanwhile; nothing was written; run this again", c.Path)
	}
	return nil
}
