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

// enter are the commands that come before all others for a module in dir, and the go.work that the go command finds
// there, "" for none. A workspace has to know of the module and of its version of Go, or no other command works.
func enter(ctx context.Context, dir string) (next []string, work string) {
	if dir != "." {
		next = append(next, "cd "+shellWord(dir))
	}
	if work = workspaceOf(ctx, dir); work != "" {
		next = append(next, "go work use .")
	}
	return next, work
}

// workspaceOf asks the go command, which also reads GOWORK from a file of its own.
func workspaceOf(ctx context.Context, dir string) string {
	cmd := exec.CommandContext(ctx, "go", "env", "GOWORK")
	cmd.Dir = dir
	cmd.Env = append(childenv.WithoutSecrets(cmd.Environ()), "GOTOOLCHAIN=local") // any version can say it, so none is fetched
	out, err := cmd.Output()
	work := strings.TrimRight(string(out), "\r\n")
	if err != nil || work == "off" {
		return ""
	}
	return work
}

// vendoring is the command that brings the vendor directory of the module in dir up to date, or that of its workspace;
// none where neither has one. In a workspace Go refuses "go mod vendor", and uses a vendor directory that is marked as the
// workspace's alone.
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

// vendored reports whether dir has a vendor directory, and whether it is that of a workspace.
func vendored(dir string) (is, shared bool) {
	list, err := os.ReadFile(filepath.Join(dir, "vendor", "modules.txt"))
	return err == nil, bytes.HasPrefix(list, []byte("## workspace"))
}

// shellWord is a path as a POSIX shell takes it for one word.
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
