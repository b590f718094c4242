package breaking_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/breaking"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/testkit/sampletest"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

// perPair is how many payloads of the new schema each old type decodes.
const perPair = 200

// oracleTypes are the configured types of formats.
var oracleTypes = map[string]string{"address": "net/netip.Addr"}

// A form is one way to describe the member x of a payload or of arguments, and what is known of it.
type form struct {
	text   string
	family int
	// set holds the event type whose payload it is, args the one whose arguments it is.
	set, args []breaking.Package
	root      map[string]any
	payload   *validate.Schema
	input     *validate.Schema
	// values are objects {"x": …}, or with undeclared members, that are valid.
	values, padded []string
}

// The verdict of no change is held against what evolve never sees: each form is generated as an old
// version, all of them are compiled into one program, and for each pair of forms without a WIRE change
// its types decode payloads of the new form. The other way round, arguments of an old form must be valid
// by the new one and decode there. An ordinary run tries two families of forms, `make night` all.
func TestVerdictsHoldForGeneratedCode(t *testing.T) {
	forms := loadForms(t)
	// Each processor has forms of its own: under the race detector one would take a minute.
	passed := make([]struct{ decodings, readings [][2]int }, len(forms)) // old and new, by index
	var wg sync.WaitGroup
	for i := range min(runtime.GOMAXPROCS(0), len(forms)) {
		wg.Go(func() {
			for ; i < len(forms); i += runtime.GOMAXPROCS(0) {
				p := &passed[i]
				p.decodings, p.readings = verdicts(t, forms, i)
			}
		})
	}
	wg.Wait()
	var decodings, readings [][2]int
	for _, p := range passed {
		decodings, readings = append(decodings, p.decodings...), append(readings, p.readings...)
	}
	// A comparison that calls every change breaking would pass, too: then each form is left with itself.
	if len(decodings) <= len(forms) || len(readings) <= len(forms) {
		t.Errorf("of %d pairs only %d and %d pass", len(forms)*len(forms), len(decodings), len(readings))
	}
	t.Logf("%d forms; %d pairs decode payloads, %d read arguments", len(forms), len(decodings), len(readings))
	for _, line := range decodeAll(t, forms, decodings, readings) {
		t.Error(line)
	}
}

// verdicts compares form i as the old version with the others, and returns the pairs that may be decoded
// and read.
func verdicts(t *testing.T, forms []*form, i int) (decodings, readings [][2]int) {
	old := forms[i]
	for j, new := range forms {
		if old.family != new.family && (i*7+j)%12 != 0 {
			continue // of what nobody changes into each other, a part will do
		}
		found := categories(breaking.Compare(old.set, new.set, everything))
		if !found[breaking.Wire] {
			decodings = append(decodings, [2]int{i, j})
			if !found[breaking.Strict] {
				for _, v := range new.values {
					if err := old.payload.Validate([]byte(v)); err != nil {
						t.Errorf("payload %s to %s: no change, but %s is not valid by the old schema: %v", old.text, new.text, v, err)
						break
					}
				}
			}
		}
		if found := categories(breaking.Compare(old.args, new.args, everything)); !found[breaking.Wire] {
			if found[breaking.Strict] {
				continue // who sends members that are not declared was warned
			}
			readings = append(readings, [2]int{i, j})
			for _, v := range old.values {
				if err := new.input.Validate([]byte(v)); err != nil {
					t.Errorf("arguments %s to %s: no change, but %s is not valid by the new schema: %v", old.text, new.text, v, err)
					break
				}
			}
		}
	}
	return decodings, readings
}

var everything = breaking.Options{Rules: rule.Selection{Use: []string{breaking.Wire, breaking.Strict}}, Now: today}

func categories(found []source.Diagnostic) map[string]bool {
	out := map[string]bool{}
	for _, d := range found {
		for _, r := range allRules {
			if r.ID == d.Code {
				out[r.Category] = true
			}
		}
	}
	return out
}

var allRules = breaking.Rules()

// oracleFile is an event file whose payloads, and arguments, hold the forms.
func oracleFile(forms []string, first int) string {
	var b strings.Builder
	b.WriteString("version: 1\nschemas:\n")
	for _, s := range oracleSchemas {
		b.WriteString("  " + s + "\n")
	}
	b.WriteString("events:\n")
	for i, f := range forms {
		fmt.Fprintf(&b, "  - name: p.f%03d\n    description: D.\n    inputSchema: {type: object, additionalProperties: false}\n    payloadSchema: {type: object, properties: {x: %s}}\n", first+i, f)
		fmt.Fprintf(&b, "  - name: a.f%03d\n    description: D.\n    inputSchema: {type: object, properties: {x: %s}, additionalProperties: false}\n    payloadSchema: {type: object, additionalProperties: false}\n", first+i, f)
	}
	return b.String()
}

func loadForms(t *testing.T) []*form {
	t.Helper()
	var out []*form
	address, err := ir.ParseGoType(oracleTypes["address"])
	if err != nil {
		t.Fatal(err)
	}
	compile := func(p *schema.Set, n *source.Node) (*validate.Schema, map[string]any) {
		raw := p.Published(n)
		s, err := validate.Compile(raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		root, err := validate.Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		return s, root.(map[string]any)
	}
	i := 0
	for _, family := range sampletest.Draw(t, families(), 2) {
		for _, text := range oracleForms[family] {
			// Both events of a form have one name in each version, so that any two can be compared.
			content := strings.ReplaceAll(oracleFile([]string{text}, 0), "f000", "x")
			pkg := version(t, "form.yaml", []byte(content))[0]
			pkg.Go.Formats = map[string]ir.GoType{"address": address}
			f := &form{text: text, family: family}
			f.set, f.args = []breaking.Package{only(pkg, 0)}, []breaking.Package{only(pkg, 1)}
			f.payload, f.root = compile(pkg.Set, pkg.Set.Files[0].Events[0].Payload)
			f.input, _ = compile(pkg.Set, pkg.Set.Files[0].Events[1].Input)
			f.draw(rand.New(rand.NewPCG(1, uint64(i))))
			if len(f.values) < 2 {
				t.Errorf("%s: only %d samples", text, len(f.values))
			}
			out = append(out, f)
			i++
		}
	}
	return out
}

// families returns the indexes of oracleForms.
func families() []int {
	all := make([]int, len(oracleForms))
	for i := range all {
		all[i] = i
	}
	return all
}

// only is the package with one of its events.
func only(p breaking.Package, event int) breaking.Package {
	set, file := *p.Set, *p.Set.Files[0]
	file.Events = file.Events[event : event+1]
	set.Files = []*schema.File{&file}
	p.Set = &set
	return p
}

// draw fills the samples of a form.
func (f *form) draw(r *rand.Rand) {
	seen := map[string]bool{}
	d := drawer{rand: r, root: f.root}
	told := told(f.root)
	for range 600 {
		if len(f.values) == perPair {
			break
		}
		v, err := json.Marshal(d.value(f.root, 5))
		if err != nil || seen[string(v)] || f.payload.Validate(v) != nil || told.Validate(v) != nil {
			continue
		}
		seen[string(v)] = true
		f.values = append(f.values, string(v))
	}
	f.padded = slices.Clone(f.values)
	for n := 0; len(f.values) > 0 && len(f.padded) < perPair; n++ { // few values: with members of later versions
		v := strings.TrimSuffix(f.values[n%len(f.values)], "}")
		if v != "{" {
			v += ","
		}
		f.padded = append(f.padded, fmt.Sprintf(`%s"later%d":[%d]}`, v, n, n))
	}
}

// told is the schema of a payload that also keeps its word about tags: where a discriminator maps a tag to
// a variant, a value with that tag is of that variant.
func told(root map[string]any) *validate.Schema {
	x, _ := root["properties"].(map[string]any)["x"].(map[string]any)
	d, _ := x["discriminator"].(map[string]any)
	mapping, _ := d["mapping"].(map[string]any)
	var rules []any
	for _, list := range []any{x["oneOf"], x["anyOf"]} {
		variants, _ := list.([]any)
		for _, v := range variants {
			if ref, ok := v.(map[string]any)["$ref"].(string); ok && mapping == nil && d != nil {
				rules = append(rules, tagRule(ref[strings.LastIndex(ref, "/")+1:], ref))
			}
		}
	}
	for tag, ref := range mapping {
		rules = append(rules, tagRule(tag, ref.(string)))
	}
	schema := map[string]any{"$defs": root["$defs"], "properties": map[string]any{"x": map[string]any{"allOf": rules}}}
	if len(rules) == 0 {
		schema = map[string]any{}
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		panic(err)
	}
	s, err := validate.Compile(raw)
	if err != nil {
		panic(err)
	}
	return s
}

func tagRule(tag, ref string) any {
	return map[string]any{
		"if":   map[string]any{"required": []string{"k"}, "properties": map[string]any{"k": map[string]any{"const": tag}}},
		"then": map[string]any{"$ref": ref},
	}
}

// decodeAll compiles all forms into one program and returns what its types cannot decode.
func decodeAll(t *testing.T, forms []*form, decodings, readings [][2]int) []string {
	t.Helper()
	dir := module(t)
	texts := make([]string, len(forms))
	samples := struct {
		Payloads, Arguments [][]string
		Decodings, Readings [][2]int
	}{Decodings: decodings, Readings: readings}
	var table strings.Builder
	for i, f := range forms {
		texts[i] = f.text
		samples.Payloads, samples.Arguments = append(samples.Payloads, f.padded), append(samples.Arguments, f.values)
		fmt.Fprintf(&table, "\t{decode[old.PF%03dPayload], decode[old.AF%03dArguments]},\n", i, i)
	}
	write(t, filepath.Join(dir, "old.yaml"), []byte(oracleFile(texts, 0)))
	plan, found, err := gen.Generate(t.Context(), gen.Request{Dir: dir, Files: []string{"old.yaml"}, Out: "old", Package: "old", Emit: []string{"types"}, Types: oracleTypes})
	if err != nil || source.HasErrors(found) {
		t.Fatalf("%v\n%s", err, text(found))
	}
	if err := plan.Apply(); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(samples)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "samples.json"), data)
	write(t, filepath.Join(dir, "main.go"), []byte(oracleProgram+"var table = []pair{\n"+table.String()+"}\n"))
	cmd := exec.CommandContext(t.Context(), "go", "run", "-trimpath", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var failed []string
	for line := range strings.Lines(string(out)) {
		var f struct {
			What     string
			Old, New int
			Sample   string
			Err      string
		}
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		failed = append(failed, fmt.Sprintf("%s %s to %s: no change, but %s fails to decode: %s", f.What, texts[f.Old], texts[f.New], f.Sample, f.Err))
	}
	return failed
}

const oracleProgram = `package main

import (
	"encoding/json"
	"fmt"
	"os"

	"example.com/old/old"
)

type pair struct{ payload, arguments func(string) error }

func decode[P any](text string) error {
	var v P
	return json.Unmarshal([]byte(text), &v)
}

func main() {
	var samples struct {
		Payloads, Arguments [][]string
		Decodings, Readings [][2]int
	}
	data, err := os.ReadFile("samples.json")
	if err == nil {
		err = json.Unmarshal(data, &samples)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	try := func(what string, p [2]int, decode func(string) error, samples []string) {
		for _, s := range samples {
			if err := decode(s); err != nil {
				line, _ := json.Marshal(map[string]any{"What": what, "Old": p[0], "New": p[1], "Sample": s, "Err": err.Error()})
				fmt.Println(string(line))
				return
			}
		}
	}
	for _, p := range samples.Decodings {
		try("payload", p, table[p[0]].payload, samples.Payloads[p[1]])
	}
	for _, p := range samples.Readings {
		try("arguments", p, table[p[1]].arguments, samples.Arguments[p[0]])
	}
}

`
