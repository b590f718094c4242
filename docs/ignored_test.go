package docs_test

import (
	"os"
	"testing"

	"golang.org/x/mod/modfile"
)

// What make downloads and copies into bin has Go packages of its own, among them a copy of this directory for the site.
// No ./... of the module may name them.
func TestBinIsIgnored(t *testing.T) {
	data, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	f, err := modfile.Parse("go.mod", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range f.Ignore {
		if i.Path == "./bin" {
			return
		}
	}
	t.Error("go.mod does not ignore ./bin")
}
