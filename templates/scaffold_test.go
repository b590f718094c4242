package templates

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckModule(t *testing.T) {
	for _, good := range []string{"demo", "example.com/demo", "example.com/a_b/c-d/v2", "example.com/~user/x.y"} {
		if err := CheckModule(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "/", "a//b", "a/", "a./b", "a.", "a b", "a\nreplace x => y", "example.com/ü", runtimePath} {
		if CheckModule(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestProgramName(t *testing.T) {
	for in, want := range map[string]string{
		"example.com/demo":    "demo",
		"example.com/demo/v2": "demo",
		"demo":                "demo",
		"v2":                  "v2",
		"/tmp/My Notes (old)": "My-Notes-old",
		"/":                   "server",
	} {
		if got := ProgramName(in); got != want {
			t.Errorf("ProgramName(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestReplacement(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	for dir, mod := range map[string]string{"checkout": "module " + runtimePath + "\n", "with space": "module " + runtimePath + "\n", "other": "module example.com/other\n", "empty": ""} {
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if mod == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	absolute := filepath.Join(root, "checkout")
	for _, c := range []struct{ dir, checkout, want, err string }{
		{"demo", "checkout", "../checkout", ""},
		{"a/b", "./checkout/", "../../checkout", ""},
		{".", "checkout", "./checkout", ""},
		{"checkout/examples/x", "checkout", "../..", ""},
		{"demo", absolute, absolute, ""},
		{"demo", "with space", "../with space", ""},
		{"demo", "other", "", "is not " + runtimePath},
		{"demo", "empty", "", "has no go.mod"},
		{"demo", "missing", "", "has no go.mod"},
	} {
		got, err := Replacement(c.dir, c.checkout)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("Replacement(%q, %q) = %q, %v; want %q, %q", c.dir, c.checkout, got, err, c.want, c.err)
		}
	}
}
