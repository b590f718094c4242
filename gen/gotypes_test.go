package gen_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/gen"
)

// An x-go-type, or a Go type of the configuration, whose package no import finds is an error, which a compiler would
// report in generated code otherwise.
func TestGoTypesCanBeImported(t *testing.T) {
	const own = "module shop\n\ngo 1.26\n\nrequire (\n\tmoney v0.0.0\n\texample.com/x v1.0.0\n)\n\nreplace money => ../money\n"
	for _, test := range []struct {
		mod, work, goType string
		ok                bool
	}{
		{own, "", "uuid.UUID", false},
		{own, "", "google/uuid.UUID", false},
		{own, "", "github.com/google/uuid.UUID", true},
		{own, "", "time.Duration", true},
		{own, "", "math/big.Int", true},
		{own, "", "string", true},
		{own, "", "shop.ID", true},
		{own, "", "shop/types.ID", true},
		{own, "", "money.Amount", true},
		{own, "", "money/v2/types.Amount", true},
		{own, "go 1.26\n", "other/types.ID", true},
		{own, "go 1.26\n", "uuid.UUID", false},
		{"", "", "shop/types.ID", true},
		{"", "", "uuid.UUID", false},
		{own, "", "shop/out.ID", true},
	} {
		dir := t.TempDir()
		write := func(name, text string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if test.mod != "" {
			write("go.mod", test.mod)
		}
		if test.work != "" {
			write("go.work", test.work)
		}
		const file = "version: 1\nevents:\n  - name: a.b\n    description: A.\n    inputSchema: {type: object, additionalProperties: false}\n    payloadSchema: {type: object, properties: {id: {type: string, %s}}}\n"
		write("said.yaml", fmt.Sprintf(file, "x-go-type: "+test.goType))
		write("format.yaml", fmt.Sprintf(file, "format: id"))

		_, found, err := gen.Generate(context.Background(), gen.Request{Dir: dir, Files: []string{"said.yaml"}, Out: "out", Emit: []string{"types"}})
		if err != nil {
			t.Fatal(err)
		}
		const want = "said.yaml:6:78: error MCPE208: x-go-type: package %s is neither in the standard library nor in a module of go.mod"
		pkg := test.goType[:max(strings.LastIndex(test.goType, "."), 0)]
		if test.ok != (len(found) == 0) || !test.ok && (found[0].String() != fmt.Sprintf(want, pkg) || !strings.Contains(found[0].Hint, "github.com/google/uuid.UUID")) {
			t.Errorf("x-go-type %s with go.mod %q and go.work %q: %v", test.goType, test.mod, test.work, found)
		}
		_, _, err = gen.Generate(context.Background(), gen.Request{Dir: dir, Files: []string{"format.yaml"}, Out: "out", Emit: []string{"types"}, Types: map[string]string{"id": test.goType}})
		if test.ok != (err == nil) || !test.ok && !strings.HasPrefix(err.Error(), "the Go type of format id: package "+pkg+" is neither in the standard library") {
			t.Errorf("type %s with go.mod %q and go.work %q: %v", test.goType, test.mod, test.work, err)
		}
	}
}

// A type that a package of the standard library does not have is an error, with the nearest type or a link.
func TestStandardGoTypes(t *testing.T) {
	for _, test := range []struct{ goType, want string }{
		{"time.Tim", "x-go-type: package time has no type Tim: did you mean \"Time\"?"},
		{"encoding/json.Rawmessage", "x-go-type: package encoding/json has no type Rawmessage: did you mean \"RawMessage\"?"},
		{"net/netip.Zone", "x-go-type: package net/netip has no type Zone: see https://pkg.go.dev/net/netip"},
		{"net/netip.Prefix", ""},
		{"net/url.URL", ""},
	} {
		dir := t.TempDir()
		file := "version: 1\nevents:\n  - name: a.b\n    description: A.\n    inputSchema: {type: object, additionalProperties: false}\n    payloadSchema: {type: object, properties: {id: {type: string, x-go-type: " + test.goType + "}}}\n"
		if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(file), 0o666); err != nil {
			t.Fatal(err)
		}
		_, found, err := gen.Generate(context.Background(), gen.Request{Dir: dir, Files: []string{"a.yaml"}, Out: "out", Emit: []string{"types"}})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if len(found) > 0 {
			got = found[0].Message + ": " + found[0].Hint
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.goType, got, test.want)
		}
	}
}

// A Go type from the package for servers or for clients is an error: these packages import that of the types.
func TestGoTypeOfPackageThatImportsTypes(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "go.mod", "module shop\n\ngo 1.26\n")
	for pkg, out := range map[string][2]string{"shop/out/outserver": {}, "shop/out/outclient": {}, "shop/s": {"s"}, "shop/c": {"", "c"}} {
		write(t, dir, "e.yaml", "version: 1\nevents:\n  - name: a.b\n    description: A.\n    inputSchema: {type: object, additionalProperties: false}\n    payloadSchema: {type: object, properties: {id: {type: string, x-go-type: "+pkg+".ID}}}\n")
		_, found, err := gen.Generate(context.Background(), gen.Request{Dir: dir, Files: []string{"e.yaml"}, Out: "out", ServerOut: out[0], ClientOut: out[1]})
		if err != nil {
			t.Fatal(err)
		}
		want := "e.yaml:6:78: error MCPE208: x-go-type: package " + pkg + " imports the generated types, so they cannot use its types"
		if len(found) != 1 || found[0].String() != want {
			t.Errorf("%s: got %v, want %s", pkg, found, want)
		}
	}
}
