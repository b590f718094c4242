package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/breaking"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/golang"
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
// schemas. The targets are acceptable waiting times for people, 3 s and 20 s.
func benchGraph(b *bench) {
	dir := b.tempModule()
	api := apiDocument()
	var imported []byte
	m := b.inTurns(func() float64 {
		return b.seconds(func() (err error) {
			imported, err = importHooks(api)
			return err
		})
	})
	b.within("import of 300 webhooks over 1,500 schemas (8 MB)", m[0], 20, duration)
	for _, in := range []struct {
		what, name string
		content    []byte
		at         string // where a member is added, before this
		most       float64
	}{
		{"300 webhooks over 1,500 schemas", "api.yaml", imported, "id:", 20},
		{"a ring of 400 schemas", "ring.json", ringFile(400), `"id":`, 3},
	} {
		file, added := b.write(dir, in.name, in.content), b.write(dir, "added-"+in.name, withMember(in.content, in.at))
		plan, err := planOf(b, gen.Request{Files: []string{file}, Out: filepath.Join(dir, "out"), Package: "bench"})
		b.check(err)
		schemas := plan.Create[slices.IndexFunc(plan.Create, func(f gen.File) bool { return filepath.Base(f.Path) == golang.SchemasFile })].Content
		names := []string{"the start of a server", "breaking with an optional member added"}
		runs := []func() error{func() error { return serveGraph(string(schemas)) }, func() error { return checkAdditive(file, added) }}
		for _, verb := range sizedVerbs {
			names = append(names, verb.name)
			runs = append(runs, func() error { return verb.run(b, file, filepath.Join(dir, "out")) })
		}
		name, took := b.worst(names, func(i int) float64 { return b.seconds(runs[i]) })
		b.within(name+", "+in.what+"; the other verbs take less", took, in.most, duration)
		b.against(golang.SchemasFile+" against the event file, "+in.what, []float64{float64(len(in.content))}, []float64{float64(len(schemas))}, size, "≤ 2.00")
	}
}

// importHooks imports the webhooks of an OpenAPI document.
func importHooks(api []byte) ([]byte, error) {
	root, found := source.Parse("api.json", api)
	if err := firstError(found); err != nil {
		return nil, err
	}
	doc, found := openapi.Read(root)
	if err := firstError(found); err != nil {
		return nil, err
	}
	file, _, err := importer.Write(doc, importer.Options{From: "api.json"})
	return file, err
}

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
		return fmt.Errorf("%s has breaking changes: %s", now, found[0])
	}
	return nil
}

// serveGraph registers the event types of a generated package, with its read tools.
func serveGraph(schemas string) error {
	s, err := server.New(newServer(), server.Options{})
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
