package install

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// editTOML adds a bridge to a TOML file. It changes lines of text; [Agent.Plan] then verifies what they mean.
func editTOML(f *file, e Entry) ([]byte, string, error) {
	args := quotedList(e.Args)
	shown := fmt.Sprintf("[mcp_servers.%s]\ncommand = %s\nargs = %s\n", e.Name, quoted(e.Command), args)
	root, err := decodeTOML(f.text)
	if err != nil {
		line, column := 1, 1
		if bad, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, column = bad.Position()
		}
		return nil, "", fmt.Errorf("%s:%d:%d: this is not TOML: %w; nothing was written", f.path, line, column, err)
	}
	servers, _ := root["mcp_servers"].(map[string]any)
	there, exists := servers[e.Name]
	if !exists {
		text, newline, lead := shown+"tool_timeout_sec = 60\n", f.newline(), ""
		if body := strings.TrimRight(string(f.text), " \t\r\n"); body != "" {
			lead = strings.Repeat(newline, max(0, 2-strings.Count(string(f.text[len(body):]), "\n")))
		}
		return append(slices.Clone(f.text), lead+strings.ReplaceAll(text, "\n", newline)...), text, nil
	}
	entry, _ := there.(map[string]any)
	if !e.isBridge(entry) {
		return nil, "", f.errTaken(e.Name)
	}
	changed := f.setTOML(e.Name, "command", entry["command"], quoted(e.Command))
	changed = (&file{path: f.path, text: changed}).setTOML(e.Name, "args", entry["args"], args)
	return changed, shown, nil
}

// decodeTOML returns the content of a TOML file.
func decodeTOML(text []byte) (map[string]any, error) {
	root := map[string]any{}
	return root, toml.Unmarshal(text, &root)
}

// tomlKey returns a regular expression for a key with or without quotes.
func tomlKey(key string) string {
	key = regexp.QuoteMeta(key)
	return `(?:` + key + `|"` + key + `"|'` + key + `')`
}

// setTOML replaces a value, had, in the table of a server. It finds the table and the key in their usual forms only.
func (f *file) setTOML(server, key string, had any, value string) []byte {
	pair := regexp.MustCompile(`(?ms)^[ \t]*\[[ \t]*` + tomlKey("mcp_servers") + `[ \t]*\.[ \t]*` + tomlKey(server) + `[ \t]*\]` +
		`.*?^[ \t]*` + tomlKey(key) + `[ \t]*=[ \t]*`).FindIndex(f.text)
	if pair == nil {
		return f.text
	}
	start := pair[1]
	for end := start + 1; end <= len(f.text); end++ {
		if !strings.ContainsRune(`]"'`, rune(f.text[end-1])) { // the ends of lists and strings
			continue
		}
		found, err := decodeTOML(slices.Concat([]byte("x = "), f.text[start:end]))
		if err == nil && reflect.DeepEqual(found["x"], had) {
			return f.replace(start, end, value)
		}
	}
	return f.text
}

func quotedList(all []string) string {
	var parts []string
	for _, s := range all {
		parts = append(parts, quoted(s))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}
