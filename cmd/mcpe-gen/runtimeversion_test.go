package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/adopt"
)

const eventFile = "version: 1\nevents:\n  - name: note.added\n    description: Fires when somebody adds a note.\n" +
	"    inputSchema: {type: object, additionalProperties: false}\n    payloadSchema: {type: object, properties: {text: {type: string}}, required: [text]}\n"

// generate compares its version with the one that go.mod requires, and writes nothing if their minor versions differ.
func TestRuntimeVersion(t *testing.T) {
	const (
		require = "\n\nrequire github.com/mcpe-gen/mcpe-gen "
		replace = "\n\nreplace github.com/mcpe-gen/mcpe-gen => "
		tool    = "\n\ntool " + adopt.ToolPath
		tools   = "module example.com/m/tools" + tool + require
		get     = "go get -modfile=tools/go.mod -tool " + adopt.ToolPath + "@"
	)
	for name, c := range map[string]struct {
		version, gomod string
		files          map[string]string
		// want is the last line of the message, or "" if generate writes.
		want string
	}{
		"same":                      {version: "v0.8.0", gomod: require + "v0.8.0"},
		"other patch":               {version: "v0.8.0", gomod: require + "v0.8.3"},
		"pre-release":               {version: "v0.8.0", gomod: require + "v0.8.0-rc.1"},
		"development build":         {version: "(devel)", gomod: require + "v0.7.0"},
		"commit of the command":     {version: "v0.7.1-0.20260102150405-abcdefabcdef", gomod: require + "v0.9.0"},
		"commit of the runtime":     {version: "v0.8.0", gomod: require + "v0.7.1-0.20260102150405-abcdefabcdef"},
		"no requirement":            {version: "v0.8.0"},
		"directory":                 {version: "v0.8.0", gomod: require + "v0.7.0" + replace + "../checkout"},
		"fork of the same minor":    {version: "v0.8.0", gomod: require + "v0.7.0" + replace + "example.com/fork v0.8.2"},
		"fork of another minor":     {version: "v0.8.0", gomod: require + "v0.8.0" + replace + "example.com/fork v0.7.2", want: "go install " + adopt.ToolPath + "@v0.7.2"},
		"replaced other version":    {version: "v0.8.0", gomod: require + "v0.7.0" + "\n\nreplace github.com/mcpe-gen/mcpe-gen v0.6.0 => ../checkout", want: "go install " + adopt.ToolPath + "@v0.7.0"},
		"other minor":               {version: "v0.8.0", gomod: require + "v0.9.1", want: "go install " + adopt.ToolPath + "@v0.9.1"},
		"other major":               {version: "v0.8.0", gomod: require + "v1.8.0", want: "go install " + adopt.ToolPath + "@v1.8.0"},
		"pre-release of the next":   {version: "v0.9.0-rc.1", gomod: require + "v0.8.1", want: "go install " + adopt.ToolPath + "@v0.8.1"},
		"older tools":               {version: "v0.8.0", gomod: require + "v0.9.1", files: map[string]string{"tools/go.mod": tools + "v0.8.0\n"}, want: get + "v0.9.1"},
		"newer tools":               {version: "v0.9.0", gomod: require + "v0.8.1", files: map[string]string{"tools/go.mod": tools + "v0.9.0\n"}, want: get + "v0.8.1"},
		"tools of the runtime":      {version: "v0.9.0", gomod: require + "v0.8.1", files: map[string]string{"tools/go.mod": tools + "v0.8.0\n"}, want: "go tool -modfile=tools/go.mod mcpe-gen generate"},
		"other tools":               {version: "v0.9.0", gomod: require + "v0.8.1", files: map[string]string{"tools/go.mod": "module x\n"}, want: "go install " + adopt.ToolPath + "@v0.8.1"},
		"tool line":                 {version: "v0.9.0", gomod: tool + require + "v0.8.1", want: "go tool mcpe-gen generate"},
		"vendor directory":          {version: "v0.9.0", gomod: require + "v0.8.1", files: map[string]string{"tools/go.mod": tools + "v0.8.0\n", "vendor/modules.txt": ""}, want: "go run -mod=readonly -modfile=tools/go.mod " + adopt.ToolPath + " generate"},
		"malformed go.mod":          {version: "v0.8.0", gomod: "\nrequired x", want: "go.mod:2: unknown directive: required"},
		"malformed go.mod of tools": {version: "v0.8.0", gomod: require + "v0.9.0", files: map[string]string{"tools/go.mod": "module x\n\ntool (\n"}, want: "go.mod:4: syntax error (unterminated block started at DIR/tools/go.mod:3:1)"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, map[string]string{"go.mod": "module example.com/m" + c.gomod + "\n", "notes.yaml": eventFile})
			write(t, dir, c.files)
			t.Chdir(dir)
			var stderr bytes.Buffer
			v := cli.VersionOf(&debug.BuildInfo{Main: debug.Module{Path: cli.Module, Version: c.version}})
			code := run([]string{"generate", "notes.yaml", "-o", "internal/notes"}, io.Discard, &stderr, v)
			_, err := os.Stat(filepath.Join(dir, "internal"))
			if c.want == "" {
				if code != cli.OK || err != nil {
					t.Errorf("exit code %d, %v\n%s", code, err, &stderr)
				}
				return
			}
			if !strings.HasSuffix(stderr.String(), strings.ReplaceAll(c.want, "DIR", dir)+"\n") || code != cli.Usage || err == nil {
				t.Errorf("exit code %d, want the last line %s\n%s", code, c.want, &stderr)
			}
		})
	}
}

// From another directory, the line begins with the way to the module.
func TestRuntimeVersionBelow(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"go.mod": "module example.com/m\n\nrequire github.com/mcpe-gen/mcpe-gen v0.9.0\n", "events/notes.yaml": eventFile})
	t.Chdir(filepath.Join(dir, "events"))
	var stderr bytes.Buffer
	v := cli.VersionOf(&debug.BuildInfo{Main: debug.Module{Path: cli.Module, Version: "v0.8.0"}})
	code := run([]string{"generate", "notes.yaml"}, io.Discard, &stderr, v)
	want := "mcpe-gen: this mcpe-gen is v0.8.0, and " + dir + "/go.mod requires v0.9.0: the minor versions must be the same; nothing was written. Run:\n" +
		"cd " + dir + " && go install " + adopt.ToolPath + "@v0.9.0\n"
	if code != cli.Usage || stderr.String() != want {
		t.Errorf("exit code %d\n%s\nwant\n%s", code, &stderr, want)
	}
}

// The packages for servers and clients may be in modules of their own.
func TestRuntimeVersionOfParts(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"go.mod": "module example.com/m\n", "sdk/go.mod": "module example.com/sdk\n\nrequire github.com/mcpe-gen/mcpe-gen v0.9.0\n", "notes.yaml": eventFile,
		"mcpe.yaml": "version: 1\npackages: [{schemas: [notes.yaml], out: notes, client: {out: sdk/notesclient}}]\n",
	})
	t.Chdir(dir)
	var stderr bytes.Buffer
	v := cli.VersionOf(&debug.BuildInfo{Main: debug.Module{Path: cli.Module, Version: "v0.8.0"}})
	if code := run([]string{"generate"}, io.Discard, &stderr, v); code != cli.Usage || !strings.Contains(stderr.String(), dir+"/sdk/go.mod requires v0.9.0") {
		t.Errorf("exit code %d\n%s", code, &stderr)
	}
}
