package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/mcpe-gen/mcpe-gen/internal/childenv"
)

// enter returns the commands to run before all others for a module in dir, and the go.work that the go command finds
// there, or "". A workspace must include the module and support its Go version, or no other command works.
func enter(ctx context.Context, dir string) (next []string, work string) {
	if dir != "." {
		next = append(next, "cd "+shellWord(dir))
	}
	if work = workspaceOf(ctx, dir); work != "" {
		next = append(next, "go work use .")
	}
	return next, work
}

// workspaceOf asks the go command, which also reads GOWORK from its configuration file.
func workspaceOf(ctx context.Context, dir string) string {
	cmd := exec.CommandContext(ctx, "go", "env", "GOWORK")
	cmd.Dir = dir
	cmd.Env = append(childenv.WithoutSecrets(cmd.Environ()), "GOTOOLCHAIN=local") // any version answers this, so do not download one
	out, err := cmd.Output()
	work := strings.TrimRight(string(out), "\r\n")
	if err != nil || work == "off" {
		return ""
	}
	return work
}

// vendoring returns the command that updates the vendor directory of the module in dir or of its workspace, or nothing
// if neither has one. In a workspace Go refuses "go mod vendor" and uses only a vendor directory that is marked as the
// workspace's.
func vendoring(dir, work string) []string {
	is, shared := vendored(dir)
	if work == "" {
		if is && !shared {
			return []string{"go mod vendor"}
		}
		return nil
	}
	var next []string
	if _, of := vendored(filepath.Dir(work)); of {
		next = append(next, "go work vendor")
	}
	if is && !shared {
		next = append(next, "GOWORK=off go mod vendor")
	}
	return next
}

// vendored reports whether dir has a vendor directory, and whether it belongs to a workspace.
func vendored(dir string) (is, shared bool) {
	list, err := os.ReadFile(filepath.Join(dir, "vendor", "modules.txt"))
	return err == nil, bytes.HasPrefix(list, []byte("## workspace"))
}

// shellWord quotes a path as one word for a POSIX shell.
func shellWord(path string) string {
	if strings.HasPrefix(path, "-") {
		path = "./" + path
	}
	special := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("@%+=:,._-/"+string(filepath.Separator), r)
	}
	if strings.IndexFunc(path, special) < 0 {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
