package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/clitest"
	"github.com/mcpe-gen/mcpe-gen/internal/testkit/freeport"
	"github.com/mcpe-gen/mcpe-gen/templates"
)

var (
	getenv   = regexp.MustCompile(`os\.Getenv\("(\w+)"\)`)
	exported = regexp.MustCompile(`(?m)^\s*export (\w+=\S+)`)
)

// readmeCovers holds the README.md of a scaffold to what its program reads of the environment: docker run names every
// variable, and what has to be set before "go run ." there has to be set in the Next of init too (E9).
func readmeCovers(dir, next string) error {
	text, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		return err
	}
	readme := string(text)
	_, docker, _ := strings.Cut(readme, "    docker run ")
	docker, _, _ = strings.Cut(strings.ReplaceAll(docker, "\\\n", ""), "\n")
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no Go files: %w", err)
	}
	var read []string
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, m := range getenv.FindAllSubmatch(source, -1) {
			read = append(read, string(m[1]))
		}
	}
	for _, variable := range read {
		if !strings.Contains(docker, "-e "+variable+" ") {
			return fmt.Errorf("docker run does not name %s: %q", variable, docker)
		}
	}
	for _, word := range strings.Fields(docker) {
		if regexp.MustCompile(`^[A-Z_]+$`).MatchString(word) && !strings.HasPrefix(word, "OTEL_") && !slices.Contains(read, word) {
			return fmt.Errorf("docker run names %s, which nothing reads", word)
		}
	}
	exports := func(text string) (all []string) {
		for _, m := range exported.FindAllStringSubmatch(text, -1) {
			all = append(all, m[1])
		}
		return all
	}
	if shown, told := exports(readme), exports(next); !slices.Equal(shown, told) {
		return fmt.Errorf("README.md exports %q, Next of init %q", shown, told)
	}
	return nil
}

// followReadme does what README.md says: its commands as they are, but for the address, the programs, which are built,
// and what only the reader has: a database, an authorization server and a token of it (E9).
func (r *running) followReadme(t *testing.T, dir string) {
	addrs, release, err := freeport.Reserve(1)
	if err != nil {
		t.Fatal(err)
	}
	addr := addrs[0]
	release()
	mine := map[string]string{}
	if r.store == "postgres" {
		mine["DATABASE_URL"] = clitest.OwnDatabase(t, r.postgres, "readme_"+filepath.Base(r.program))
	}
	if r.auth == "oauth" {
		url := issuer(t, "http://"+addr+"/mcp")
		mine["OAUTH_ISSUER"], mine["OAUTH_INTROSPECTION"] = url, url
	}
	start := r.program
	if r.transport == "http" {
		start += " -http " + addr
	}
	if r.metrics == "prometheus" {
		start += " -metrics-addr 127.0.0.1:0"
	}
	text := strings.NewReplacer("go run .", "exec "+start, "go tool -modfile=tools/go.mod mcpe-gen", "exec "+filepath.Join(filepath.Dir(r.program), "mcpe-gen"),
		"127.0.0.1:8080", addr, "-- ./"+filepath.Base(r.program), "-- "+r.program).Replace(readText(t, filepath.Join(dir, "README.md")))
	text, _, _ = strings.Cut(text, "\n## Where things are")
	text = regexp.MustCompile(`(?m)^    (go|docker) .*`).ReplaceAllString(text, "    :")
	text = exported.ReplaceAllStringFunc(text, func(line string) string {
		name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if value, ok := mine[name]; ok {
			return "    export " + name + "='" + value + "'"
		}
		return line
	})
	blocks := regexp.MustCompile(`(?m)(?:^    .*\n)+`).FindAllString(text, -1)
	if len(blocks) < 2 {
		t.Fatalf("README.md has the commands %q", blocks)
	}
	sh := func(script string) (*exec.Cmd, *clitest.Lines) {
		cmd, out := exec.CommandContext(t.Context(), "sh", "-ec", script), &clitest.Lines{}
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
		cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
			name, _, _ := strings.Cut(v, "=")
			return name == "DATABASE_URL" || strings.HasPrefix(name, "OAUTH_")
		}), "TOKEN=s3cret")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, out
	}
	if r.transport == "stdio" {
		first, _, _ := strings.Cut(blocks[0], "    exec ") // the rest is for an MCP client
		cmd, out := sh(first + blocks[1])
		if err := cmd.Wait(); err != nil || strings.Count(out.String(), `"text"`) != 3 {
			t.Errorf("%v\n%s%s", err, first+blocks[1], out)
		}
		return
	}
	server, said := sh(blocks[0])
	said.Find(t, regexp.MustCompile(`MCP on http://`))
	listener, heard := sh(blocks[1])
	if slices.Contains(templates.Sources, r.about) || r.isGateway() || r.about == "github" || r.about == "gitlab" || r.about == "hmac" || r.about == "cloudevents" {
		if len(blocks) < 3 {
			t.Fatalf("README.md does not say how to see an event: %q", blocks)
		}
		// It takes a moment until listen has subscribed. A sample whose body has the id of its delivery is taken once.
		sample := filepath.Join(dir, "testdata", "webhook.json")
		body, _ := os.ReadFile(sample) // a server of notes has none
		for end := time.Now().Add(time.Minute); !strings.Contains(heard.String(), "{"); time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("no event\n%s\n%s\n%s", strings.Join(blocks, "\n"), said, heard)
			}
			if fresh := bytes.Replace(body, []byte("delivery-1"), []byte("delivery-"+rand.Text()), 1); body != nil {
				if err := os.WriteFile(sample, fresh, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			post, answer := sh(strings.ReplaceAll(blocks[2], "curl ", "curl -sS --fail-with-body "))
			if err := post.Wait(); err != nil {
				t.Fatalf("%v\n%s%s", err, blocks[2], answer)
			}
			time.Sleep(400 * time.Millisecond)
		}
		if strings.Contains(heard.String(), "not for this subscriber") {
			t.Errorf("an event of somebody else: %s", heard)
		}
	} else {
		heard.Find(t, regexp.MustCompile(`by push from`))
	}
	if r.isGateway() {
		runFetch(t, text)
	}
	_ = listener.Process.Kill()
	_ = listener.Wait()
	terminate(t, server, said)
}
