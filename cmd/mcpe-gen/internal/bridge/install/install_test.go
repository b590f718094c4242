package install

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

var entry = Entry{Name: "events", Command: "/bin/mcpe-gen", Args: []string{"bridge", "--config", "/home/me/my \"bridge\".yaml"}}

// at makes a file of an agent below a new home, "" for none, and returns the agent and the path.
func at(t *testing.T, name, text string) (*Agent, string) {
	t.Helper()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	t.Setenv("CODEX_HOME", "")
	t.Setenv("CLAUDE_CONFIG_DIR", "")
	a, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(home, filepath.FromSlash(a.home))
	if text != "" {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return a, path
}

// write plans and writes, and then does it once more, which must change nothing.
func write(t *testing.T, a *Agent, path string, e Entry) string {
	t.Helper()
	c, err := a.Plan("", e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(); err != nil || c.Path != path {
		t.Fatal(c.Path, err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := a.Plan("", e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Write(); err != nil || !again.Current {
		t.Fatal("the second time changes something:", err)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != string(after) {
		t.Fatalf("the second time makes %q: %v", now, err)
	}
	return string(after)
}

// inserted reports whether b is a with something put in at one place.
func inserted(a, b string) bool {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return len(b) >= len(a) && strings.HasSuffix(b, a[n:])
}

// BRIDGE-10: an entry is put into a file of JSON as the others of its kind stand there; nothing else changes.
func TestBRIDGE10JSON(t *testing.T) {
	whole := "{\n  \"mcpServers\": {\n    \"events\": {\n      \"type\": \"stdio\",\n      \"command\": \"/bin/mcpe-gen\",\n      \"args\": [\"bridge\",\"--config\",\"/home/me/my \\\"bridge\\\".yaml\"]\n    }\n  }\n}\n"
	for name, test := range map[string]struct{ before, after string }{
		"no file":      {"", whole},
		"white space":  {" \n", whole},
		"empty":        {"{}", `{"mcpServers":{"events":{"type":"stdio","command":"/bin/mcpe-gen","args":["bridge","--config","/home/me/my \"bridge\".yaml"]}}}`},
		"other things": {"{\n\t\"a\": 1.50,\n\t\"b\": \"\\u00e9<\"\n}", ""},
		"no servers":   {"{\n  \"mcpServers\": {}\n}\n", whole},
		"servers":      {"{\n    \"mcpServers\": {\n        \"x\": {\"command\": \"x\"},\n        \"y\": {\n            \"url\": \"https://y\"\n        }\n    },\n    \"z\": [1,  2]\n}\n", ""},
		"one line":     {`{"mcpServers":{"x":{"command":"x"}},"b":1}`, ""},
		"mixed":        {"{\n  \"a\": {\"mcpServers\": {\"events\": 1}},\n  \"mcpServers\": {\"x\": {\"command\": \"x\"}}\n}\n", ""},
		"CRLF":         {"{\r\n  \"a\": 1\r\n}\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			a, path := at(t, "claude", test.before)
			got := write(t, a, path, entry)
			if test.after != "" && got != test.after {
				t.Errorf("got\n%s\nwant\n%s", got, test.after)
			}
			if test.after == "" && !inserted(test.before, got) {
				t.Errorf("more than the entry has changed:\n%s", got)
			}
			if name == "CRLF" && strings.Count(got, "\n") != strings.Count(got, "\r\n") {
				t.Errorf("line ends are mixed: %q", got)
			}
			var before, after map[string]any
			if strings.TrimSpace(test.before) != "" {
				if err := json.Unmarshal([]byte(test.before), &before); err != nil {
					t.Fatal(err)
				}
			}
			if err := json.Unmarshal([]byte(got), &after); err != nil {
				t.Fatal(err, got)
			}
			servers := after["mcpServers"].(map[string]any)
			if e := servers["events"].(map[string]any); e["command"] != entry.Command || e["args"].([]any)[2] != entry.Args[2] {
				t.Errorf("%v", e)
			}
			if delete(servers, "events"); len(servers) == 0 && before["mcpServers"] == nil {
				delete(after, "mcpServers")
			}
			if len(before)+len(after) > 0 && !reflect.DeepEqual(before, after) {
				t.Errorf("without the entry %v, before %v", after, before)
			}
		})
	}
}

// BRIDGE-10: an entry of an earlier bridge is changed in its command and arguments, in JSON and in TOML.
func TestBRIDGE10Changed(t *testing.T) {
	for name, test := range map[string]struct{ agent, before, after string }{
		"JSON": {"cursor", "{\n  \"mcpServers\": {\n    \"events\": {\n      \"args\": [\"bridge\", \"https://old.example\", \"e\"],\n      \"env\": {\"A\": \"b\"},\n      \"command\": \"/old/mcpe-gen\"\n    }\n  }\n}\n",
			"{\n  \"mcpServers\": {\n    \"events\": {\n      \"args\": [\"bridge\",\"--config\",\"/home/me/my \\\"bridge\\\".yaml\"],\n      \"env\": {\"A\": \"b\"},\n      \"command\": \"/bin/mcpe-gen\"\n    }\n  }\n}\n"},
		"TOML": {"codex", "[mcp_servers.events] # mine\nargs = [ 'bridge', # old\n  \"e]\", ]\nenabled = true\ncommand = \"mcpe-gen\" # too\n[other]\ncommand = 1\n",
			"[mcp_servers.events] # mine\nargs = [\"bridge\", \"--config\", \"/home/me/my \\\"bridge\\\".yaml\"]\nenabled = true\ncommand = \"/bin/mcpe-gen\" # too\n[other]\ncommand = 1\n"},
		"TOML in quotes": {"codex", "n = nan\r\n[ \"mcp_servers\" . 'events' ]\r\n\"command\" = '''/old/mcpe-gen.exe'''\r\nenv.A = \"b\"\r\n'args'=[\"bridge\"]",
			"n = nan\r\n[ \"mcp_servers\" . 'events' ]\r\n\"command\" = \"/bin/mcpe-gen\"\r\nenv.A = \"b\"\r\n'args'=[\"bridge\", \"--config\", \"/home/me/my \\\"bridge\\\".yaml\"]"},
	} {
		t.Run(name, func(t *testing.T) {
			a, path := at(t, test.agent, test.before)
			if got := write(t, a, path, entry); got != test.after {
				t.Errorf("got\n%s\nwant\n%s", got, test.after)
			}
		})
	}
}

// BRIDGE-10: an entry with the command of this program, whatever its name, is changed too.
func TestBRIDGE10Renamed(t *testing.T) {
	for _, name := range []string{"claude", "codex"} {
		a, path := at(t, name, "")
		renamed := Entry{Name: "events", Command: "/bin/bridge-of-mine", Args: []string{"bridge", "--config", "old"}}
		write(t, a, path, renamed)
		renamed.Args = []string{"bridge", "--config", "new"}
		if got := write(t, a, path, renamed); !strings.Contains(got, `"new"]`) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// BRIDGE-10: a table is added after all that a file of TOML has, whatever that is.
func TestBRIDGE10TOML(t *testing.T) {
	const table = "[mcp_servers.events]\ncommand = \"/bin/mcpe-gen\"\nargs = [\"bridge\", \"--config\", \"/home/me/my \\\"bridge\\\".yaml\"]\ntool_timeout_sec = 60\n"
	for before, lead := range map[string]string{
		"":                                  "",
		"model = \"x\"":                     "\n\n",
		"model = \"x\"\n":                   "\n",
		"model = \"x\" # [mcp_servers]\n\n": "",
		"a.b = 1979-05-27T07:32:00Z\n\"c d\" = [1, [2, {x = 'y', z = \"]\"}], # more\n]\n":                                             "\n",
		"text = \"\"\"\n[mcp_servers.events]\n\\\"\"\"\"\"\n[mcp_servers.x]\ncommand = 'c:\\x'\n[mcp_servers.x.env]\nA = '''\n'x'''\n": "\n",
		"[[list]]\n[[list]]\n": "\n",
		"[mcp_servers]\n\n[mcp_servers.\"events2\"]\nx = -1.5\n": "\n",
		"x = nan\nmcp_servers.y.command = 'y'\n":                 "\n",
	} {
		a, path := at(t, "codex", before)
		if got := write(t, a, path, entry); got != before+lead+table {
			t.Errorf("%q became\n%s", before, got)
		}
	}
	a, path := at(t, "codex", "a = 1\r\n")
	if got := write(t, a, path, entry); strings.Count(got, "\n") != strings.Count(got, "\r\n") {
		t.Errorf("line ends are mixed: %q", got)
	}
}

// BRIDGE-10: what cannot be parsed, or would change a server that is not a bridge, is refused with its place and stays.
func TestBRIDGE10Refused(t *testing.T) {
	for _, test := range []struct{ agent, before, want string }{
		{"claude", "{\n  \"a\": 1,\n  // comment\n}", ":3:3: this is not JSON: invalid character '/'"},
		{"claude", `{"a": 1`, ":1:8: this is not JSON: unexpected end"},
		{"claude", "{\"a\": [1,]}", ":1:10: this is not JSON: "},
		{"claude", "{}\n{}", ":2:1: this is not JSON: invalid character '{' after"},
		{"claude", "[]", ":1:1: the configuration must be a JSON object"},
		{"claude", `{"é": 1, "mcpServers": []}`, ":1:24: mcpServers must be a JSON object"},
		{"claude", `{"mcpServers": {}, "mcpServers": {}}`, `:1:20: the configuration has "mcpServers" twice`},
		{"claude", "{\"mcpServers\": {\n\"events\": 1}}", ":2:11: events must be a JSON object"},
		{"claude", "{\"mcpServers\": {\n\"events\": {\"command\": \"node\", \"args\": [\"x\"]}}}", ": \"events\" is another server; choose another name with --name"},
		{"claude", `{"mcpServers": {"\u0065vents": {"command": "node"}}}`, `"events" is another server`},
		{"claude", `{"mcpServers": {"events": {"command": "other", "args": ["bridge", "up"], "env": {"SECRET": "s"}}}}`, `"events" is another server`},
		{"cursor", `{"mcpServers": {"events": {"command": "mcpe-generic", "args": ["bridge"]}}}`, `"events" is another server`},
		{"cursor", `{"mcpServers": {"events": {"command": "/bin/mcpe-gen", "args": ["serve"]}}}`, `"events" is another server`},
		{"cursor", `{"mcpServers": {"events": {"url": "https://x", "args": ["bridge"]}}}`, `"events" is another server`},
		{"codex", "a = 1\nb\n", ":2:2: this is not TOML: toml: expected '='"},
		{"codex", "a = \"x\n", ":1:7: this is not TOML: toml: basic strings"},
		{"codex", "a = [1 2]\n", ":1:8: this is not TOML: toml: expected ','"},
		{"codex", "a = 1\n\"\\u0061\" = 2\n", ":2:1: this is not TOML: toml: key a is already defined"},
		{"codex", "[mcp_servers.x]\n[mcp_servers.\"\\u0078\"]\n", ":2:2: this is not TOML: toml: table x already exists"},
		{"codex", "a = 1\nmcp_servers = {}\n", ": mcp_servers has a form that this command does not change"},
		{"codex", "mcp_servers = {x = {command = 'x'}}\n", ": mcp_servers has a form"},
		{"codex", "[[mcp_servers]]\n", ": mcp_servers has a form"},
		{"codex", "mcp_servers = 1\n", ": mcp_servers has a form"},
		{"codex", "[mcp_servers.\"\\u0065vents\"]\ncommand = 'mcpe-gen'\nargs = ['bridge']\n", ": mcp_servers has a form"},
		{"codex", "mcp_servers.events = {command = 'mcpe-gen', args = ['bridge']}\n", ": mcp_servers has a form"},
		{"codex", "[mcp_servers.events]\nargs = ['bridge']\nenv = {A = '''\ncommand = 'mcpe-gen'\n'''}\ncommand = 'mcpe-gen'\n", ": mcp_servers has a form"},
		{"codex", "[mcp_servers.events]\nargs = ['bridge']\nenv = {A = '''\ncommand = '/bin/mcpe-gen'\n'''}\ncommand = '/bin/mcpe-gen'\n", ": mcp_servers has a form"},
		{"codex", "mcp_servers.events.command = 'x'\n", ": \"events\" is another server"},
		{"codex", "[mcp_servers]\nevents = {command = 'x'}\n", ": \"events\" is another server"},
		{"codex", "[mcp_servers.\"\\u0065vents\"]\ncommand = 'x'\n", ": \"events\" is another server"},
		{"codex", "[mcp_servers.events.env]\nSECRET = 's'\n", ": \"events\" is another server"},
		{"codex", "\n[mcp_servers.events]\nargs = ['bridge']\n", ": \"events\" is another server"},
		{"codex", "\n[mcp_servers.events]\ncommand = 'other'\nargs = ['bridge']\nenv = {SECRET = 's'}\n", ": \"events\" is another server"},
	} {
		a, path := at(t, test.agent, test.before)
		_, err := a.Plan("", entry)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), path+":") {
			t.Errorf("%s\ngot  %v\nwant %s", test.before, err, test.want)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != test.before {
			t.Errorf("%s became %s", test.before, now)
		}
	}
	if _, err := Find("vim"); err == nil || !strings.Contains(err.Error(), "known are claude, codex, cursor") {
		t.Error(err)
	}
	a, _ := at(t, "claude", "")
	if _, err := a.Plan("", Entry{Name: "a b"}); err == nil || !strings.Contains(err.Error(), `"a b"`) {
		t.Error(err)
	}
}

// BRIDGE-10: the file keeps its mode, and a link to it stays one. The backup is what the file was before the first
// change, with its mode.
func TestBRIDGE10Backup(t *testing.T) {
	a, path := at(t, "claude", "{}")
	real := path + ".real"
	if err := os.Rename(path, real); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, path); err != nil {
		t.Skip(err)
	}
	for i, name := range []string{"first", "second"} {
		e := entry
		e.Name = name
		c, err := a.Plan("", e)
		if err != nil {
			t.Fatal(err)
		}
		want := real + BackupSuffix
		if i > 0 {
			want = ""
		}
		if backup, err := c.Write(); err != nil || backup != want {
			t.Fatalf("the %s change has the backup %q, want %q; %v", name, backup, want, err)
		}
		if text, err := os.ReadFile(real + BackupSuffix); err != nil || string(text) != "{}" {
			t.Errorf("the backup is %q, %v", text, err)
		}
		for _, file := range []string{real, real + BackupSuffix} {
			info, err := os.Stat(file)
			if err != nil || info.Mode().Perm() != 0o640 && runtime.GOOS != "windows" {
				t.Errorf("%s: %v, %v", file, info.Mode(), err)
			}
		}
		if link, err := os.Readlink(path); err != nil || link != real {
			t.Error(link, err)
		}
	}
}

// BRIDGE-10: a link that leads to nothing is refused and stays, whether it is the file or its directory.
func TestBRIDGE10Dangling(t *testing.T) {
	for _, rest := range []string{"", "/config.toml"} {
		a, path := at(t, "codex", "")
		link, target := strings.TrimSuffix(path, filepath.FromSlash(rest)), filepath.Join(t.TempDir(), "dotfiles")
		if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, link); err != nil {
			t.Skip(err)
		}
		if _, err := a.Plan("", entry); err == nil || !strings.Contains(err.Error(), link+" is a link to "+target+", which leads to nothing") {
			t.Errorf("%q: %v", rest, err)
		}
		if now, err := os.Readlink(link); err != nil || now != target {
			t.Error(now, err)
		}
	}
}

// BRIDGE-10: a file that another program has changed, replaced, created or removed since it was read is not written, and
// has no backup.
func TestBRIDGE10Meanwhile(t *testing.T) {
	put := func(text string) func(path string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	for name, test := range map[string]struct {
		before string
		change func(path string) error
	}{
		"changed": {"{}", put(`{"a": 1}`)},
		"created": {"", put("")},
		"removed": {"{}", os.Remove},
		"replaced": {"{}", func(path string) error {
			if err := put("{}")(path + ".new"); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		}},
		"link": {"{}", func(path string) error {
			if err := os.Rename(path, path+".real"); err != nil {
				return err
			}
			return os.Symlink(path+".real", path)
		}},
		"installed": {`{"mcpServers": {"events": {"type": "stdio", "command": "/bin/mcpe-gen", "args": ["bridge", "--config", "/home/me/my \"bridge\".yaml"]}}}`, put(`{}`)},
	} {
		t.Run(name, func(t *testing.T) {
			a, path := at(t, "claude", test.before)
			c, err := a.Plan("", entry)
			if err != nil {
				t.Fatal(err)
			}
			if err := test.change(path); err != nil {
				t.Fatal(err)
			}
			want, _ := os.ReadFile(path)
			if backup, err := c.Write(); err == nil || backup != "" || !strings.Contains(err.Error(), "has changed meanwhile; nothing was written") {
				t.Errorf("%q, %v", backup, err)
			}
			if now, _ := os.ReadFile(path); string(now) != string(want) {
				t.Errorf("it is %q now, want %q", now, want)
			}
			if left, err := filepath.Glob(path + "*"); err != nil || strings.Contains(strings.Join(left, " "), BackupSuffix) {
				t.Error(left, err)
			}
		})
	}
}

// BRIDGE-10: a project and the variables of the agents have files of their own.
func TestBRIDGE10Files(t *testing.T) {
	other := t.TempDir()
	t.Setenv("CODEX_HOME", other)
	t.Setenv("CLAUDE_CONFIG_DIR", other)
	for _, test := range [][3]string{{"claude", "", ".claude.json"}, {"claude", other, ".mcp.json"}, {"codex", "", "config.toml"}, {"codex", other, ".codex/config.toml"}, {"cursor", other, ".cursor/mcp.json"}} {
		a, err := Find(test[0])
		if err != nil {
			t.Fatal(err)
		}
		if c, err := a.Plan(test[1], entry); err != nil || c.Path != filepath.Join(other, filepath.FromSlash(test[2])) || c.Exists {
			t.Errorf("%v: %+v, %v", test, c, err)
		}
	}
}

// Whatever a file has, it is refused or stays what it was with the entry in it.
func FuzzTOML(f *testing.F) {
	f.Add("a = 1\n[b]\nc = [\"x\"] # y\n")
	f.Add("[mcp_servers.events]\nargs = ['bridge']\n")
	f.Fuzz(func(t *testing.T, text string) {
		in := &file{path: "config.toml", text: []byte(text)}
		after, _, err := editTOML(in, entry)
		if err != nil {
			return
		}
		if !Agents[1].verify(in.text, after, entry) {
			return
		}
		twice, _, err := editTOML(&file{path: "config.toml", text: after}, entry)
		if err != nil || string(twice) != string(after) {
			t.Errorf("%q became %q, and then %q: %v", text, after, twice, err)
		}
	})
}

// Whatever a file has, it is refused or stays what it was with the entry in it.
func FuzzJSON(f *testing.F) {
	f.Add("{\n  \"a\": 1\n}")
	f.Add(`{"mcpServers":{"events":{"args":["bridge"]}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		in := &file{path: "mcp.json", text: []byte(text)}
		after, _, err := editJSON(in, entry)
		if err != nil {
			return
		}
		if !json.Valid(after) {
			t.Fatalf("%q became %q", text, after)
		}
		twice, _, err := editJSON(&file{path: "mcp.json", text: after}, entry)
		if err != nil || string(twice) != string(after) {
			t.Errorf("%q became %q, and then %q: %v", text, after, twice, err)
		}
	})
}
