package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mcpe-gen/mcpe-gen/internal/childenv"
	"github.com/mcpe-gen/mcpe-gen/internal/procgroup"
)

// Limits of a plugin run.
const (
	// DefaultTimeout is the time limit of a run.
	DefaultTimeout = 30 * time.Second
	// MaxOutput is the maximum size of a response in bytes.
	MaxOutput = 64 << 20
	// maxErrors is the maximum number of bytes of standard error in an error message.
	maxErrors = 16 << 10
)

// A Program is a plugin command. It runs with the user's permissions and environment, but without the command's
// secrets.
type Program struct {
	// Command is the program and its arguments. If the program is a relative path, it is relative to Dir, the working
	// directory.
	Command []string
	Dir     string
	// Timeout replaces DefaultTimeout when positive.
	Timeout time.Duration
}

// Run runs the program and returns its response. An error describes the failure of the program or the problem in its
// response, and includes the program's standard error. See PLUG-1 and PLUG-2.
func (p Program) Run(ctx context.Context, r Request) (Response, error) {
	input, err := json.Marshal(r)
	if err != nil {
		return Response{}, err
	}
	timeout := p.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	limited, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it has not answered within %s", timeout))
	defer cancel()
	name, err := p.name()
	if err != nil {
		return Response{}, err
	}
	out, complaints := &limitedBuffer{max: MaxOutput, full: cancel}, &tailBuffer{}
	cmd := exec.CommandContext(limited, name, p.Command[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Dir, bytes.NewReader(input), out, complaints
	cmd.Env = childenv.WithoutSecrets(cmd.Environ())
	cmd.WaitDelay = time.Second // a child process may hold the output open
	procgroup.Lead(cmd)         // a plugin is often a script that wraps the real program
	cmd.Cancel = func() error { return procgroup.Kill(cmd.Process) }
	err = cmd.Run()
	switch {
	case out.over:
		return Response{}, complaints.annotate(fmt.Errorf("its answer is longer than %d MB", MaxOutput>>20))
	case limited.Err() != nil:
		return Response{}, complaints.annotate(context.Cause(limited))
	case err != nil:
		return Response{}, complaints.annotate(err)
	}
	answer, err := decode(out.text)
	if err != nil {
		return Response{}, complaints.annotate(err)
	}
	return answer, nil
}

// name returns the name or path of the program to run. A relative path is resolved against Dir.
func (p Program) name() (string, error) {
	name := p.Command[0]
	if strings.ContainsAny(name, `/\`) && !filepath.IsAbs(name) {
		return filepath.Abs(filepath.Join(p.Dir, name))
	}
	return name, nil
}

// maxListed is the maximum number of files per directory that Files returns.
const maxListed = 1000

// Files returns the program's files that can be determined from its command. These are the program itself, each
// argument that is a file, and the files in each argument that is a directory, as in go run ./tools/dataclasses. If the
// program is a path, it is included even if the file does not exist.
func (p Program) Files() []string {
	var all []string
	if name, err := p.name(); err == nil {
		if found, err := exec.LookPath(name); err == nil {
			name = found
		}
		if filepath.IsAbs(name) {
			all = append(all, name)
		}
	}
	for _, arg := range p.Command[1:] {
		if !filepath.IsAbs(arg) {
			arg = filepath.Join(p.Dir, arg)
		}
		info, err := os.Stat(arg)
		switch {
		case err != nil:
		case info.Mode().IsRegular():
			all = append(all, arg)
		case info.IsDir():
			entries, _ := os.ReadDir(arg)
			for _, e := range entries[:min(len(entries), maxListed)] {
				if e.Type().IsRegular() {
					all = append(all, filepath.Join(arg, e.Name()))
				}
			}
		}
	}
	return all
}

// decode decodes a response. The response must have the member files, even if it is empty. Otherwise, a malformed
// response would delete all files of earlier runs.
func decode(text []byte) (Response, error) {
	if !utf8.Valid(text) {
		return Response{}, errors.New("its answer is not UTF-8")
	}
	var answer Response
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&answer); err != nil {
		return Response{}, fmt.Errorf(`its answer is not {"files": […], "diagnostics": […]}: %w`, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Response{}, errors.New("its output continues after the answer; write one JSON object")
	}
	if answer.Files == nil {
		return Response{}, errors.New("its answer has no member files")
	}
	for _, d := range answer.Diagnostics {
		if d.Severity != "error" && d.Severity != "warning" && d.Severity != "note" {
			return Response{}, fmt.Errorf("a diagnostic has severity %q; use error, warning or note", d.Severity)
		}
		if d.Message == "" {
			return Response{}, errors.New("a diagnostic has no message")
		}
	}
	return answer, checkPaths(answer.Files)
}

// checkPaths returns an error if a file is outside the output directory, or if two files cannot coexist.
func checkPaths(files []File) error {
	seen, dirs := map[string]string{}, map[string]string{}
	for _, f := range files {
		if err := CheckPath(f.Path); err != nil {
			return err
		}
		folded := strings.ToLower(f.Path) // file systems may fold case
		if seen[folded] != "" {
			return fmt.Errorf("the files %q and %q have the same name if case is ignored", seen[folded], f.Path)
		}
		seen[folded] = f.Path
		for dir := path.Dir(folded); dir != "."; dir = path.Dir(dir) {
			dirs[dir] = f.Path
		}
	}
	for folded, name := range seen {
		if dirs[folded] != "" {
			return fmt.Errorf("%q is both a file and the directory of %q", name, dirs[folded])
		}
	}
	return nil
}

// CheckPath returns an error unless name is a valid path below a directory on all systems.
func CheckPath(name string) error {
	switch {
	case name == "" || name == "." || path.Clean(name) != name || strings.ContainsAny(name, "\\:\x00") || !filepath.IsLocal(filepath.FromSlash(name)):
		return fmt.Errorf("%q is not a path below its output directory", name)
	case strings.EqualFold(path.Base(name), ListFile):
		return fmt.Errorf("%q is reserved for the list of generated files", name)
	}
	return nil
}

// ListFile is the name of the file that lists the files written by a plugin.
const ListFile = ".mcpe-gen.json"

// A limitedBuffer stores up to max bytes. If more bytes are written, it calls full. It does not embed a bytes.Buffer,
// because the buffer's ReadFrom method would bypass the limit.
type limitedBuffer struct {
	text []byte
	max  int
	over bool
	full func()
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if len(b.text)+len(p) > b.max {
		b.over = true
		b.full()
		return 0, errors.New("too much")
	}
	b.text = append(b.text, p...)
	return len(p), nil
}

// A tailBuffer stores the last bytes of standard error.
type tailBuffer struct{ text []byte }

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if over := len(t.text) - maxErrors; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

// annotate appends the stored text to an error.
func (t *tailBuffer) annotate(err error) error {
	if text := strings.TrimSpace(strings.ToValidUTF8(string(t.text), "?")); text != "" {
		return fmt.Errorf("%w; its standard error:\n%s", err, text)
	}
	return err
}
