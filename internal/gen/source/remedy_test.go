package source_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// What is wrong with the text of a file comes with its place and with what to do.
func TestRemedies(t *testing.T) {
	for _, c := range []struct{ path, in, want string }{
		{"a.yaml", "events:\n  - name: a\n    description: Fires: when a thing happens\n", `3:23 quote it: description: "Fires: when a thing happens"`},
		{"a.yaml", "a: it's: \"x\"\n", `1:8 quote it: a: 'it''s: "x"'`},
		{"a.yaml", "a: b: say \\ it\n", `1:5 quote it: a: 'b: say \ it'`},
		{"a.yaml", "a: {b: c: d}\n", `1:9 quote a text that contains ": "`},
		{"a.yaml", "a: @home\n", `1:4 quote it: a: "@home"`},
		{"a.yaml", "a: `code`\n", "1:4 quote it: a: \"`code`\""},
		{"a.yaml", "a: - x\n", `1:4 quote it: a: "- x"`},
		{"a.yaml", "a: \"x\" and more\n", `1:8 quote all of the value: a: "x and more"`},
		{"a.yaml", "a: [b, c\n", `1:4 close the list with ]`},
		{"a.yaml", "a: [b, {c: d\n", `1:8 members stand between { and }`},
		{"a.yaml", "a: [b, [", `1:9 close what is open with ] or }`},
		{"a.yaml", "a\nb: c\n", `2:2 end the key of the line above with a colon`},
		{"a.yaml", "a: *b\nc: *b\n", `1:4 `},
		{"a.yaml", "a: |\n\tb\n", `2:1 indent with spaces`},
		{"a.yaml", "a: \"b\nc: d\n", `1:4 close the text with the quote`},
		{"a.yaml", "events:\n  - name: a\n   description: D\n", `3:4 check the indentation: line 2 begins in column 5, line 3 in column 4`},
		{"a.yaml", "events:\n  - name: a\n    description: D\n     inputSchema: {}\n", `4:17 check the indentation: line 3 begins in column 5, line 4 in column 6`},
		{"a.yaml", "events:\r\n  - name: a\r\n  description: D\r\n", `3:3 check the indentation: line 2 begins in column 5, line 3 in column 3`},
		{"a.yaml", "a: 1e400\n", `1:4 quote it if it is a string: "1e400"`},
		{"a.yaml", "a: -1e-400\n", `1:4 quote it`},
		{"a.json", `{"a": 1e400}`, `1:7 quote it if it is a string, or leave it out`},
		{"a.json", "{\n  // no\n  \"a\": 1\n}", `2:3 remove it, or name the file .yaml, where # begins a comment`},
		{"a.json", "{\"a\": 1 /* no */}", `1:9 remove it`},
		{"a.json", "{\"a\": 1 # no\n}", `1:9 remove it`},
		{"a.json", "{\"é\": // no\n 1}", `1:7 remove it`},
		{"a.JSON", "{'a': 1, }]", `1:2 write "…" instead of '…'`},
		{"a.json", "{\"a\": 1 \"b\": 2}", `1:9 `},
		{"a.json", "{\"a\": [1, 2", `1:12 close what is open`},
		{"a.json", "{\"a\": }]", `1:7 `},
		{"a.json", `{"a": 1,}`, `1:9 remove the comma before it`},
		{"a.yaml", "events:\n  - name: a\n    description:Fires now \n", `3:5 put a space after the colon: description: Fires now`},
		{"a.yaml", "a:\n  - b: 1\n   \u00a0c: 1\n", `3:4 indent with spaces`},
		{"a.yaml", "a:\n\u2003 b: 1\n c: 2\n", `2:1 indent with spaces`},
		{"a.yaml", "a:\n<<<<<<< HEAD\n  b: 1\n=======\n  b: 2\n>>>>>>> theirs\n", `2:1 keep one of the two versions`},
		{"a.yaml", "a:\n  b: 1\n=======\n  b: 2\n", `3:1 keep one`},
		{"a.yaml", "a:\n  b: %d things\n", `2:6 quote it: b: "%d things"`},
	} {
		_, found := source.Parse(c.path, []byte(c.in))
		if len(found) != 1 {
			if len(found) > 1 || c.want != "" {
				t.Errorf("%q: %v", c.in, found)
			}
			continue
		}
		got := strings.TrimPrefix(found[0].Range.String(), c.path+":") + " " + found[0].Hint
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%q\ngot  %s\nwant %s", c.in, got, c.want)
		}
	}
	// YAML's comma before a bracket is allowed in YAML, and large integers and small numbers are numbers.
	for path, in := range map[string]string{"b.yaml": `{"a": 1,}`, "a.yaml": "a: [123456789012345678901234567890, 1e-300, 0e999, 0.0]\n"} {
		if _, found := source.Parse(path, []byte(in)); len(found) > 0 && !strings.Contains(in, "0e999") {
			t.Errorf("%s: %v", in, found)
		}
	}
}

// Devices, pipes and directories are no files to read.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{os.DevNull, "/dev/zero", dir} {
		if content, err := source.ReadFile(path); err == nil {
			t.Errorf("%s was read: %d bytes", path, len(content))
		}
	}
	if _, err := source.ReadFile(filepath.Join(dir, "none")); !os.IsNotExist(err) {
		t.Error(err)
	}
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 1<<26+1); err != nil {
		t.Fatal(err)
	}
	if _, err := source.ReadFile(large); err == nil || !strings.Contains(err.Error(), "more than 67108864 bytes") {
		t.Error(err)
	}
}
