package server

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// A wrapper around an emitter works where it is only emitted with, and does not compile where its Emit would not be
// called.
func TestWrappedEmitters(t *testing.T) {
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedExportFile,
	}, "./testdata/wrapped")
	if err != nil || len(loaded) != 1 || len(loaded[0].GoFiles) != 1 {
		t.Fatalf("%v, %v", loaded, err)
	}
	text, err := os.ReadFile(loaded[0].GoFiles[0])
	if err != nil {
		t.Fatal(err)
	}
	want := map[int]bool{}
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasSuffix(line, "// refused") {
			want[i+1] = true
		}
	}
	found := map[int]bool{}
	for _, e := range loaded[0].TypeErrors {
		if e.Soft {
			continue
		}
		line := e.Fset.Position(e.Pos).Line
		found[line] = true
		if !want[line] {
			t.Error(e)
		}
		t.Log(e)
	}
	if len(want) != 8 || !maps.Equal(want, found) {
		t.Errorf("lines %s do not compile, want %s", lines(found), lines(want))
	}
}

func lines(of map[int]bool) string { return fmt.Sprint(slices.Sorted(maps.Keys(of))) }
