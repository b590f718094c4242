package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The texts that the changes replace stand in the code as it is, once each, and so do the tests that have to find them.
func TestChangesApply(t *testing.T) {
	t.Chdir("../../../../..") // where make runs the command
	if len(postgresMutants) != 8 || len(jetStreamMutants) != 24 {
		t.Errorf("%d and %d mutants", len(postgresMutants), len(jetStreamMutants))
	}
	for engine, p := range programs {
		for _, m := range p.mutants {
			t.Run(engine+"/"+m.name, func(t *testing.T) { applies(t, m) })
		}
	}
}

func applies(t *testing.T, m mutant) {
	now := map[string]string{}
	for _, c := range m.changes {
		if now[c.file] == "" {
			text, err := os.ReadFile(filepath.FromSlash(c.file))
			if err != nil {
				t.Fatal(err)
			}
			now[c.file] = string(text)
		}
		if n := strings.Count(now[c.file], c.old); n != 1 {
			t.Errorf("%s has %q %d times, and not once", c.file, c.old, n)
		}
		now[c.file] = strings.Replace(now[c.file], c.old, c.new, 1)
	}
	if m.test == (test{}) {
		return
	}
	page, err := os.ReadFile("docs/requirements.md")
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`^\^(Test\w+)\$(?:/\S+)?$`).FindStringSubmatch(m.test.run)
	if name == nil {
		t.Fatalf("%s names no test", m.test.run)
	}
	if !regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(m.name) + ` \| [^|]+ \| .` + name[1] + "`.*\\|$").Match(page) {
		t.Errorf("docs/requirements.md does not say that %s finds it", name[1])
	}
	files, err := filepath.Glob(filepath.Join(m.test.dir, m.test.pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name[1]+"(t *testing.T) {\n") {
			return
		}
	}
	t.Errorf("%s has no %s", m.test.pkg, name[1])
}
