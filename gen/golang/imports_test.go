package golang

import (
	"go/format"
	"strings"
	"testing"
)

// Names of packages are exact where they are known, shown where they are guessed, and never taken twice.
func TestImports(t *testing.T) {
	i := newImports("example.com/m/own")
	i.embed("embed")
	for _, c := range []struct{ path, name, want string }{
		{"example.com/m/own", "Thing", "Thing"},
		{"context", "Context", "context.Context"},
		{"math/rand/v2", "Rand", "rand.Rand"},
		{eventsPath, "Time", "events.Time"},
		{"example.com/other/events", "Time", "events1.Time"},
		{"example.com/third/events", "Time", "events2.Time"},
		{"example.com/other/events", "Event", "events1.Event"},
		{"example.com/go-uuid.v3", "UUID", "gouuidv3.UUID"},
		{"example.com/Type", "X", "type1.X"},
		{"example.com/string", "X", "string1.X"},
		{"example.com/err", "X", "err1.X"},
		{"company/42", "X", "pkg.X"},
		{"company/7zip/", "X", "zip.X"},
	} {
		if got := i.qualified(c.path, c.name); got != c.want {
			t.Errorf("%s of %s is %s, want %s", c.name, c.path, got, c.want)
		}
	}
	want := `import (
	pkg "company/42"
	zip "company/7zip/"
	"context"
	_ "embed"
	"math/rand/v2"

	type1 "example.com/Type"
	err1 "example.com/err"
	gouuidv3 "example.com/go-uuid.v3"
	events1 "example.com/other/events"
	string1 "example.com/string"
	events2 "example.com/third/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)
`
	if got := formatted(t, i); got != want {
		t.Errorf("the block is\n%s", got)
	}
}

// formatted is the import declaration as gofmt writes it.
func formatted(t *testing.T, i *imports) string {
	t.Helper()
	file, err := format.Source([]byte("package p\n\n" + i.block()))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(string(file), "package p\n\n")
}

// One import needs no block, and none no declaration.
func TestFewImports(t *testing.T) {
	i := newImports("")
	if got := i.block(); got != "" {
		t.Errorf("no imports are %q", got)
	}
	for _, c := range []struct{ path, want string }{
		{"example.com/uuid", "import uuid \"example.com/uuid\"\n"},
		{"example.com/other", "import (\n\tother \"example.com/other\"\n\tuuid \"example.com/uuid\"\n)\n"},
		{"cmp", "import (\n\t\"cmp\"\n\n\tother \"example.com/other\"\n\tuuid \"example.com/uuid\"\n)\n"},
	} {
		i.qualified(c.path, "X")
		if got := formatted(t, i); got != c.want {
			t.Errorf("with %s: %q", c.path, got)
		}
	}
	i = newImports("")
	i.qualified("cmp", "Or")
	i.qualified("slices", "Sort")
	if got := formatted(t, i); got != "import (\n\t\"cmp\"\n\t\"slices\"\n)\n" {
		t.Errorf("the standard library's alone: %q", got)
	}
}
