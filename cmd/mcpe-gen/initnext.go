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

// firstCommands returns the first commands to run for a module in dir, whose generator has its go.mod in the directory
// tools of the module. A workspace must include the module and support its Go version. Otherwise, no other command
// works. "go tool -modfile" does not work in a workspace, so there the list shows how to generate.
func firstCommands(ctx context.Context, dir, tools string) (next []string) {
	if dir != "." {
		next = append(next, "cd "+shellWord(dir))
	}
	work := workspaceOf(ctx, dir)
	if work != "" {
		next = append(next, "go work use .")
	}
	next = append(append(next, "go mod tidy", "go mod tidy -C "+tools), vendorCommand(dir, work)...)
	if work != "" {
		next = append(next, "GOWORK=off go generate")
	}
	return next
}

// workspaceOf queries the go command because GOWORK can also be set in the Go configuration file.
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

// vendorCommand returns the command that updates the vendor directory of the module in dir or of its workspace. It
// returns nil if neither has such a directory. In a workspace, "go mod vendor" fails, and Go only uses a vendor
// directory that was created for the workspace.
func vendorCommand(dir, work string) []string {
	is, shared := isVendored(dir)
	if work == "" {
		if is && !shared {
			return []string{"go mod vendor"}
		}
		return nil
	}
	var next []string
	if _, of := isVendored(filepath.Dir(work)); of {
		next = append(next, "go work vendor")
	}
	if is && !shared {
		next = append(next, "GOWORK=off go mod vendor")
	}
	return next
}

// isVendored reports whether dir has a vendor directory, and whether a workspace created it.
func isVendored(dir string) (is, shared bool) {
	list, err := os.ReadFile(filepath.Join(dir, "vendor", "modules.txt"))
	return err == nil, bytes.HasPrefix(list, []byte("## workspace"))
}

// shellWord quotes a path as a single word for a POSIX shell.
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
