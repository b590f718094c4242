package golang

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
)

// importing returns the source code of a file that has a variable of each type, after its package clause.
func importing(t *testing.T, own string, types ...ir.GoType) string {
	t.Helper()
	f := newFile(Types, Options{Places: [3]Place{Types: {"own", own}}}, nil, nil)
	for _, typ := range types {
		f.Var().Id("_").Add(f.externalType(typ))
	}
	content, err := f.sourceCode()
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(content), "\npackage own\n")
	return strings.TrimPrefix(code, "\n")
}

// Names of packages are exact if they are known, shown if they are guessed, and never taken twice. Ours stay as they are.
func TestImports(t *testing.T) {
	want := `import (
	pkg "company/42"
	zip "company/7zip"
	"context"
	"math/rand/v2"
	"weak"

	type1 "example.com/Type"
	err1 "example.com/err"
	gouuidv3 "example.com/go-uuid.v3"
	any1 "example.com/known/any"
	events1 "example.com/other/events"
	string1 "example.com/string"
	events11 "example.com/third/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

var _ Thing
var _ uint8
var _ context.Context
var _ rand.Rand
var _ weak.Pointer
var _ events1.Time
var _ events11.Time
var _ events1.Event
var _ events.Time
var _ gouuidv3.UUID
var _ type1.X
var _ string1.X
var _ err1.X
var _ any1.Any
var _ pkg.X
var _ zip.X
`
	got := importing(t, "example.com/m/own",
		ir.GoType{Path: "example.com/m/own", Name: "Thing"},
		ir.GoType{Name: "uint8"},
		ir.GoType{Path: "context", Name: "Context"},
		ir.GoType{Path: "math/rand/v2", Name: "Rand"},
		ir.GoType{Path: "weak", Name: "Pointer"},
		ir.GoType{Path: "example.com/other/events", Name: "Time"},
		ir.GoType{Path: "example.com/third/events", Name: "Time"},
		ir.GoType{Path: "example.com/other/events", Name: "Event"},
		ir.GoType{Path: eventsPath, Name: "Time"},
		ir.GoType{Path: "example.com/go-uuid.v3", Name: "UUID"},
		ir.GoType{Path: "example.com/Type", Name: "X"},
		ir.GoType{Path: "example.com/string", Name: "X"},
		ir.GoType{Path: "example.com/err", Name: "X"},
		ir.GoType{Path: "example.com/known/any", Name: "Any"},
		ir.GoType{Path: "company/42", Name: "X"},
		ir.GoType{Path: "company/7zip", Name: "X"})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// One import needs no parentheses, and a file without imports has no declaration of them.
func TestFewImports(t *testing.T) {
	uuid, other := ir.GoType{Path: "example.com/uuid", Name: "X"}, ir.GoType{Path: "example.com/other", Name: "X"}
	or, sort := ir.GoType{Path: "cmp", Name: "X"}, ir.GoType{Path: "slices", Name: "X"}
	for _, c := range []struct {
		types []ir.GoType
		want  string
	}{
		{nil, ""},
		{[]ir.GoType{uuid}, "import uuid \"example.com/uuid\"\n"},
		{[]ir.GoType{or}, "import \"cmp\"\n"},
		{[]ir.GoType{uuid, other}, "import (\n\tother \"example.com/other\"\n\tuuid \"example.com/uuid\"\n)\n"},
		{[]ir.GoType{uuid, or}, "import (\n\t\"cmp\"\n\n\tuuid \"example.com/uuid\"\n)\n"},
		{[]ir.GoType{sort, or}, "import (\n\t\"cmp\"\n\t\"slices\"\n)\n"},
	} {
		got, _, _ := strings.Cut("\n"+importing(t, "", c.types...), "\nvar")
		if diff := cmp.Diff(c.want, strings.TrimLeft(got, "\n")); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.types, diff)
		}
	}
}
