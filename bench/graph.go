package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/breaking"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/openapi"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/runtime/impl/eventsimpl"
	"github.com/mcpe-gen/mcpe-gen/runtime/impl/serverimpl"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// benchGraph measures the verbs and the start of a server with schemas that refer to each other. The input is a ring of
// 400 schemas with an event type each, and an 8 MB OpenAPI document with 300 webhooks that reach half of its 1,500
// schemas. The limits are acceptable waiting times for people, 3 s and 20 s.
func benchGraph(ctx context.Context, _ settings) ([]row, error) {
	dir, err := tempModule()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	api, ring := apiDocument(), ringFile(400)
	var rows []row
	var imported []byte
	measure := func(what string, limit time.Duration, f func() error) error {
		runtime.GC()
		begin := time.Now()
		if err := f(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		took := time.Since(begin)
		rows = append(rows, row{what, limit.String(), seconds(took.Seconds()), took.Seconds() / limit.Seconds(), "≤ 1.00"})
		return nil
	}
	if err := measure("import of 300 webhooks over 1,500 schemas (8 MB)", 20*time.Second, func() error {
		root, found := source.Parse("api.json", api)
		if err := firstError(found); err != nil {
			return err
		}
		doc, found := openapi.Read(root)
		if err := firstError(found); err != nil {
			return err
		}
		var err error
		imported, _, err = importer.Write(doc, importer.Options{From: "api.json"})
		return err
	}); err != nil {
		return nil, err
	}
	for _, in := range []struct {
		what, name string
		content    []byte
		at         string // where a member is added, before this
		limit      time.Duration
	}{
		{"300 webhooks over 1,500 schemas", "api.yaml", imported, "id:", 20 * time.Second},
		{"a ring of 400", "ring.json", ring, `"id":`, 3 * time.Second},
	} {
		file, added := filepath.Join(dir, in.name), filepath.Join(dir, "added-"+in.name)
		if err := errors.Join(os.WriteFile(file, in.content, 0o644), os.WriteFile(added, withMember(in.content, in.at), 0o644)); err != nil {
			return nil, err
		}
		for _, verb := range sizedVerbs {
			if err := measure(verb.name+", "+in.what, in.limit, func() error { return verb.run(ctx, file, filepath.Join(dir, "out")) }); err != nil {
				return nil, err
			}
		}
		if err := measure("breaking with an optional member added, "+in.what, in.limit, func() error { return checkAdditive(file, added) }); err != nil {
			return nil, err
		}
		plan, found, err := gen.Generate(ctx, gen.Request{Files: []string{file}, Out: filepath.Join(dir, "out"), Package: "bench"})
		if err != nil || plan == nil {
			return nil, errors.Join(err, firstError(found))
		}
		for _, f := range plan.Create {
			if filepath.Base(f.Path) == "mcpe.schemas.json" {
				size := float64(len(f.Content)) / float64(len(in.content))
				rows = append(rows, row{"mcpe.schemas.json against the event file, " + in.what, kilobytes(len(in.content)), kilobytes(len(f.Content)), size, "≤ 2.00"})
				if err := measure("the start of a server, "+in.what, in.limit, func() error { return serveGraph(string(f.Content)) }); err != nil {
					return nil, err
				}
			}
		}
	}
	return rows, nil
}

func kilobytes(n int) string { return fmt.Sprintf("%d KB", n>>10) }

// withMember adds an optional member to the first schema of a file.
func withMember(content []byte, before string) []byte {
	member := "more: {type: string}\n      "
	if strings.HasPrefix(before, `"`) {
		member = `"more":{"type":"string"},`
	}
	return []byte(strings.Replace(string(content), before, member+before, 1))
}

// checkAdditive compares two versions. It returns an error if the second one has breaking changes.
func checkAdditive(old, now string) error {
	before, err := load(old)
	if err != nil {
		return err
	}
	after, err := load(now)
	if err != nil {
		return err
	}
	if found := breaking.Compare([]breaking.Package{{Set: before}}, []breaking.Package{{Set: after}}, breaking.Options{}); len(found) > 0 {
		return fmt.Errorf("an optional member is a finding: %s", found[0])
	}
	return nil
}

// serveGraph registers the event types of a generated package, with its read tools.
func serveGraph(schemas string) error {
	s, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil), server.Options{})
	if err != nil {
		return err
	}
	described := eventsimpl.NewSchemas(schemas)
	for _, name := range described.Events() {
		hooks := serverimpl.NewHooks(&server.Hooks[json.RawMessage, json.RawMessage]{})
		if _, err := serverimpl.Register(s, described, name, nil, hooks, nil); err != nil {
			return err
		}
	}
	if err := s.AddReadTools(readtool.All(described)...); err != nil {
		return err
	}
	return s.Shutdown(context.Background())
}

// ringFile returns an event file with n types and n schemas. Each schema refers to two other schemas.
func ringFile(n int) []byte {
	var schemas, types []string
	ref := func(i int) string { return fmt.Sprintf(`{"$ref":"#/schemas/S%d"}`, i%n) }
	for i := range n {
		schemas = append(schemas, fmt.Sprintf(`"S%d":{"type":"object","properties":{"id":{"type":"string"},"next":%s,"x":%s},"required":["id"]}`, i, ref(i+1), ref(7*i+3)))
		types = append(types, fmt.Sprintf(`{"name":"s.t%d","description":"Fires.","inputSchema":{"type":"object","additionalProperties":false},"payloadSchema":%s}`, i, ref(i)))
	}
	return []byte(`{"version":1,"schemas":{` + strings.Join(schemas, ",\n") + `},"events":[` + strings.Join(types, ",\n") + "]}")
}

// apiDocument returns an OpenAPI 3.1 document with 300 webhooks, 1,500 schemas and a typical number of paths. Half of
// the schemas refer to each other and are reachable from every webhook. Each of the others is used by one webhook or
// none.
func apiDocument() []byte {
	const all, core, hooks = 1500, 750, 300
	seed := uint32(7)
	random := func(below uint32) int {
		seed = seed*1664525 + 1013904223
		return int((seed >> 8) % below)
	}
	ref := func(i int) string { return fmt.Sprintf(`{"$ref":"#/components/schemas/obj%d"}`, i) }
	var schemas, webhooks, paths []string
	for i := range all {
		var b strings.Builder
		fmt.Fprintf(&b, `"obj%d":{"type":"object","properties":{"id":{"type":"string"},"object":{"type":"string","enum":["obj%d"]}`, i, i)
		for j := range 8 {
			fmt.Fprintf(&b, `,"f%d":{"type":%q,"description":"Field %d of the object %d."}`, j, []string{"string", "integer", "boolean"}[random(3)], j, i)
		}
		fmt.Fprintf(&b, `,"next":%s`, ref((i+1)%core))
		for j := range 3 {
			to := ref(random(core))
			if random(2) == 1 {
				to = `{"anyOf":[{"type":"string","maxLength":5000},` + to + `]}`
			}
			fmt.Fprintf(&b, `,"r%d":%s`, j, to)
		}
		schemas = append(schemas, b.String()+`},"required":["id","object"]}`)
	}
	for i := range hooks {
		webhooks = append(webhooks, fmt.Sprintf(`"obj%d.updated":{"post":{"requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":`+
			`{"object":%s,"before":%s,"related":%s},"required":["object"]}}}},"responses":{"200":{"description":"ok"}}}}`,
			core+i, ref(core+i), ref((i+300)%core), ref((i+600)%core)))
	}
	var parameters []string
	for j := range 48 {
		parameters = append(parameters, fmt.Sprintf(`{"name":"p%d","in":"query","description":"A parameter that no webhook has, as most of such documents are.","schema":{"type":"string"}}`, j))
	}
	for i := range 1000 {
		paths = append(paths, fmt.Sprintf(`"/v1/obj%d":{"get":{"parameters":[%s],"responses":{"200":{"description":"ok","content":{"application/json":{"schema":%s}}}}}}`,
			i, strings.Join(parameters, ","), ref(i)))
	}
	return []byte(`{"openapi":"3.1.0","info":{"title":"big","version":"1"},"paths":{` + strings.Join(paths, ",") + `},"webhooks":{` +
		strings.Join(webhooks, ",") + `},"components":{"schemas":{` + strings.Join(schemas, ",") + `}}}`)
}
