package source_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// outline lists every node with its range, one a line.
func outline(n *source.Node) string {
	var b strings.Builder
	var visit func(n *source.Node)
	place := func(r source.Range) string {
		return fmt.Sprintf("%d:%d-%d:%d", r.Start.Line, r.Start.Column, r.End.Line, r.End.Column)
	}
	visit = func(n *source.Node) {
		fmt.Fprintf(&b, "%s %s %s %q\n", n.Pointer(), n.Kind, place(n.Range), n.Text)
		for _, item := range n.Items {
			visit(item)
		}
		for _, m := range n.Members {
			fmt.Fprintf(&b, "key %s %s\n", m.Key, place(m.KeyRange))
			visit(m.Value)
		}
	}
	visit(n)
	return b.String()
}

func TestPositions(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"scalars", "a: 1\nb: 'it''s'\nc: \"x\\\"y\" # z\n", `
 object 1:1-3:10 ""
key a 1:1-1:2
/a number 1:4-1:5 "1"
key b 2:1-2:2
/b string 2:4-2:11 "it's"
key c 3:1-3:2
/c string 3:4-3:10 "x\"y"
`},
		{"flow", "{a: [x, {y: z}, ] # c\n , b: }", `
 object 1:1-2:8 ""
key a 1:2-1:3
/a array 1:5-1:18 ""
/a/0 string 1:6-1:7 "x"
/a/1 object 1:9-1:15 ""
key y 1:10-1:11
/a/1/y string 1:13-1:14 "z"
key b 2:4-2:5
/b null 2:7-2:7 ""
`},
		{"blocks", "a: |\n  one\n\n  two\n# c\nb: >-\n  x\nc: p q\n  r\nd:\n- e\n", `
 object 1:1-11:4 ""
key a 1:1-1:2
/a string 1:4-4:6 "one\n\ntwo\n"
key b 6:1-6:2
/b string 6:4-7:4 "x"
key c 8:1-8:2
/c string 8:4-9:4 "p q r"
key d 10:1-10:2
/d array 11:1-11:4 ""
/d/0 string 11:3-11:4 "e"
`},
		{"aliases and tags", "a: &x !!str 5\nb: *x\nc: &y {d: &z e}\nf: *y\n", `
 object 1:1-4:6 ""
key a 1:1-1:2
/a string 1:13-1:14 "5"
key b 2:1-2:2
/b string 2:4-2:6 "5"
key c 3:1-3:2
/c object 3:7-3:16 ""
key d 3:8-3:9
/c/d string 3:14-3:15 "e"
key f 4:1-4:2
/f object 4:4-4:6 ""
key d 3:8-3:9
/f/d string 3:14-3:15 "e"
`},
		{"characters, not bytes", "{\"ä\": \"😀\", b: ü}\n", `
 object 1:1-1:17 ""
key ä 1:2-1:5
/ä string 1:7-1:10 "😀"
key b 1:12-1:13
/b string 1:15-1:16 "ü"
`},
		{"JSON", "{\"a\":[1.50,\n\t{\"b/c~\":\"\\ud83d\\ude00\"}],\"d\":true}", `
 object 1:1-2:36 ""
key a 1:2-1:5
/a array 1:6-2:26 ""
/a/0 number 1:7-1:11 "1.50"
/a/1 object 2:2-2:25 ""
key b/c~ 2:3-2:9
/a/1/b~1c~0 string 2:10-2:24 "😀"
key d 2:27-2:30
/d boolean 2:31-2:35 "true"
`},
		{"byte order mark and CRLF", "\uFEFFa: 1\r\nb:\r\n  - c\r\n", `
 object 1:1-3:6 ""
key a 1:1-1:2
/a number 1:4-1:5 "1"
key b 2:1-2:2
/b array 3:3-3:6 ""
/b/0 string 3:5-3:6 "c"
`},
		{"breaks that only YAML counts", "a: \"x\u2028y\"\nb: \"p\u0085q\"\nc: 1\n", `
 object 1:1-3:5 ""
key a 1:1-1:2
/a string 1:4-1:9 "x\u2028y"
key b 2:1-2:2
/b string 2:4-2:9 "p q"
key c 3:1-3:2
/c number 3:4-3:5 "1"
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, found := source.Parse("f.yaml", []byte(c.in))
			for _, d := range found {
				t.Errorf("unexpected: %s", d)
			}
			if n == nil {
				t.Fatal("no node")
			}
			if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n"), outline(n)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Scalars follow the JSON schema of YAML 1.2, from the text alone.
func TestScalars(t *testing.T) {
	in := "[1, -0, 1.50, 1e2, 2027-03-01, 2027-03-01T00:00:00Z, yes, No, on, ~, null, Null, true, FALSE, 1:30, 0x, \"1\", '~', 1.2.3, 1e, é]"
	want := `[1,-0,1.50,1e2,"2027-03-01","2027-03-01T00:00:00Z","yes","No","on",null,null,null,true,false,"1:30","0x","1","~","1.2.3","1e","é"]`
	n, found := source.Parse("f.yaml", []byte(in))
	if len(found) > 0 {
		t.Fatalf("unexpected: %v", found)
	}
	if got := string(n.JSON()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestUnreadableText(t *testing.T) {
	for in, want := range map[string]string{
		"a: \xff\n":                       `f.yaml:1:4: error MCPE102: byte 0xFF is not UTF-8`,
		"\xff\xfea\x00":                   `f.yaml:1:1: error MCPE102: byte 0xFF is not UTF-8`,
		"ä: \"\x07\"":                     `f.yaml:1:5: error MCPE102: control character U+0007 is not allowed`,
		"a: \uFEFFb":                      `f.yaml:1:4: error MCPE102: control character U+FEFF is not allowed`,
		"a: 'b' # \uFEFF":                 `f.yaml:1:10: error MCPE102: control character U+FEFF is not allowed`,
		"a: 1\n\uFEFFb: 2":                `f.yaml:2:1: error MCPE102: control character U+FEFF is not allowed`,
		"\uFEFF\uFEFFa: 1":                `f.yaml:1:1: error MCPE102: control character U+FEFF is not allowed`,
		"a: \"\u0080\"":                   `f.yaml:1:5: error MCPE102: control character U+0080 is not allowed`,
		"{\"a\": \"\x1f\"}":               `f.yaml:1:8: error MCPE102: control character U+001F is not allowed`,
		`{"a": "\ud83d"}`:                 `f.yaml:1:8: error MCPE102: \ud83d is half of a surrogate pair`,
		"":                                `f.yaml:1:1: error MCPE108: the file is empty`,
		"\r\n# c":                         `f.yaml:1:1: error MCPE108: the file is empty`,
		"a:\n  - b\n\t- c\n":              `f.yaml:3:1: error MCPE101: YAML cannot be indented with tabs`,
		"a: {b: c\nd: e\n":                `f.yaml:2:2: error MCPE101: did not find expected ',' or '}'`,
		"a: [1, 2\nb: 3\n":                `f.yaml:2:2: error MCPE101: did not find expected ',' or ']'`,
		"a: 'x\n":                         `f.yaml:1:4: error MCPE101: found unexpected end of stream while scanning a quoted scalar`,
		strings.Repeat("[", 100):          `f.yaml:1:101: error MCPE101: did not find expected node content while parsing a flow node`,
		strings.Repeat("[", 300):          `f.yaml:1:201: error MCPE111: nested more than 200 levels deep`,
		"a: " + strings.Repeat("[", 1e5):  `f.yaml:1:204: error MCPE111: nested more than 200 levels deep`,
		strings.Repeat("- ", 20000):       `f.yaml:1:401: error MCPE111: nested more than 200 levels deep`,
		strings.Repeat("- ", 300):         `f.yaml:1:401: error MCPE111: nested more than 200 levels deep`,
		nest(300):                         `f.yaml:1:201: error MCPE111: nested more than 200 levels deep`,
		"a: " + nest(300):                 `f.yaml:1:204: error MCPE111: nested more than 200 levels deep`,
		"a: 1" + strings.Repeat("0", 400): `f.yaml:1:4: error MCPE105: a number of 401 characters; at most 400 are read`,
	} {
		_, found := source.Parse("f.yaml", []byte(in))
		if len(found) != 1 || found[0].String() != want {
			t.Errorf("%.20q: got %v, want %s", in, found, want)
		}
	}
}

// JSON is judged by RFC 8259, section 7, and a byte order mark before it is passed over; YAML has a byte order
// mark within quotes.
func TestCharactersOfEachFormat(t *testing.T) {
	const odd = "\u007f\u0080\u0085\u009f\u2028\ufeff\ufffe\uffff\U0010ffff"
	for name, in := range map[string]string{
		"JSON": `{"a` + odd + `": "` + odd + `"}`, "JSON after a mark": "\ufeff" + ` {"a` + odd + `": "` + odd + `"}`,
		"escapes": `{"a\u007f\u0080\u0085\u009f\u2028\ufeff\ufffe\uffff\udbff\udfff": "\u007f\u0080\u0085\u009f\u2028\ufeff\ufffe\uffff\udbff\udfff"}`,
	} {
		n, found := source.Parse("f", []byte(in))
		if len(found) > 0 || n.Get("a"+odd) == nil || n.Get("a"+odd).Text != odd {
			t.Errorf("%s: %v", name, found)
		}
	}
	for _, in := range []string{"\"a\ufeff\": 'b\ufeff\ufeff'\n", "a: &x \"\ufeffb\"\nc: [*x, '\ufeff']\n", "'\ufeff': 1"} {
		n, found := source.Parse("f", []byte(in))
		if len(found) > 0 || !strings.Contains(string(n.JSON()), "\ufeff") {
			t.Errorf("%q: %v", in, found)
		}
	}
}

// A key that is not a string is an error in files of our own formats; in documents of others it is its text, which
// does not change.
func TestKeysThatAreNotStrings(t *testing.T) {
	const in = "200: a\n010: b\n1.50: c\ntrue: d\nNull: e\n2027-01-01: f\n-1: g\n0x10: h\n&k 7: i\nx: {*k : j}\n"
	if _, found := source.Parse("f.yaml", []byte(in)); len(found) < 8 || found[0].String() != "f.yaml:1:1: error MCPE104: a key must be a string; this is read as a number" {
		t.Errorf("got %v", found)
	}
	n, found := source.ParseForeign("f.yaml", []byte(in))
	if want := `{"200":"a","010":"b","1.50":"c","true":"d","Null":"e","2027-01-01":"f","-1":"g","0x10":"h","7":"i","x":{"7":"j"}}`; len(found) > 0 || string(n.JSON()) != want {
		t.Errorf("got %v", found)
	}
	for in, want := range map[string]string{
		"200: a\n'200': b\n": `f.yaml:2:1: error MCPE103: key "200" is given twice`,
		"? [a]\n: b\n":       `f.yaml:1:3: error MCPE104: an array cannot be a key`,
		"a: 010\n":           `f.yaml:1:4: error MCPE105: 010 is not a number of JSON`,
	} {
		if _, found := source.ParseForeign("f.yaml", []byte(in)); len(found) != 1 || found[0].String() != want {
			t.Errorf("%q: got %v", in, found)
		}
	}
}

// A text that cannot be read takes memory by its size, however it is nested.
func TestMemoryOfUnreadableText(t *testing.T) {
	r := strings.Repeat
	for name, in := range map[string]string{
		"400 KB": r("[", 400<<10), "brackets": "a: " + r("[", 1<<19) + r("]", 1<<19), "open brackets": r("[", 1<<20), "members": r("{a: ", 1<<18),
		"pairs": r("[{a: ", 1<<18), "dashes": r("- ", 1<<19), "keys": r("? ", 1<<19), "less": r("[", 30_000) + r("]", 30_000), "lines": r("- ", 30_000) + "[",
		"within a quote": r("[x 'y, [", 8_000), "an error behind": r("a: [1, 2]\n", 6_000) + "a: [",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		n, found := source.Parse("f.yaml", []byte(in))
		runtime.ReadMemStats(&after)
		if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 100 {
			t.Errorf("%s: %d bytes take %d MB", name, len(in), used)
		}
		if n != nil || len(found) != 1 || found[0].Range.Start.Line == 0 {
			t.Errorf("%s: got %v", name, found)
		}
	}
}

func nest(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// A position that the parsers do not know is left out, never made up.
func TestUnknownColumnIsLeftOut(t *testing.T) {
	at := source.Position{File: "f.yaml", Line: 3}
	if got := at.String(); got != "f.yaml:3" {
		t.Errorf("got %s", got)
	}
	if got := source.InFile("f.yaml").String(); got != "f.yaml" {
		t.Errorf("got %s", got)
	}
}

func TestPointers(t *testing.T) {
	n, _ := source.Parse("f.yaml", []byte(`{"a/b": [{"~": 1}], "": 2}`))
	for _, p := range []string{"", "/a~1b/0/~0", "/"} {
		at := n.Lookup(p)
		if at == nil || at.Pointer() != p || at.Root() != n {
			t.Errorf("%q leads to %v", p, at)
		}
	}
	for _, p := range []string{"a", "/a~2b", "/a~1b/00", "/a~1b/1", "/x"} {
		if n.Lookup(p) != nil {
			t.Errorf("%q leads somewhere", p)
		}
	}
}
