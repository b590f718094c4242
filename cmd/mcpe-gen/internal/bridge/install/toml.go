package install

import (
	"fmt"
	"slices"
	"strings"
)

// editTOML adds a bridge to a TOML file.
func editTOML(f *file, e Entry) ([]byte, string, error) {
	table := []string{"mcp_servers", e.Name}
	command, args := "command = "+quoted(e.Command), "args = "+quotedList(e.Args)
	shown := fmt.Sprintf("[mcp_servers.%s]\n%s\n%s\n", e.Name, command, args)
	items, err := f.tomlItems()
	if err != nil {
		return nil, "", err
	}
	var header *item
	var had [2]*item // command and args
	for i := range items {
		k := &items[i]
		switch {
		case k.header && slices.Equal(k.path, table) && !k.list:
			header = k
		case !k.header && header != nil && slices.Equal(k.table, table) && slices.Equal(k.path, []string{"command"}):
			had[0] = k
		case !k.header && header != nil && slices.Equal(k.table, table) && slices.Equal(k.path, []string{"args"}):
			had[1] = k
		case k.header && k.list && (slices.Equal(k.path, table) || slices.Equal(k.path, table[:1])),
			!k.header && definesTable(append(slices.Clone(k.table), k.path...), k.table, table):
			return nil, "", f.errorAt(k.at, "mcp_servers has a form here that is not changed by this command; add what is printed without --write by hand:\n%s", shown)
		}
	}
	newline := f.newline()
	if header == nil {
		text := shown + "tool_timeout_sec = 60\n"
		lead := ""
		if body := strings.TrimRight(string(f.text), " \t\r\n"); body != "" {
			lead = strings.Repeat(newline, max(0, 2-strings.Count(string(f.text[len(body):]), "\n")))
		}
		return append(slices.Clone(f.text), lead+strings.ReplaceAll(text, "\n", newline)...), text, nil
	}
	if had[1] == nil || !strings.HasPrefix(compactArray(string(f.text[had[1].start:had[1].end])), "["+quoted(bridgeVerb)) {
		return nil, "", f.errTaken(header.at, e.Name)
	}
	// Edit from the end so that earlier offsets remain valid.
	text := f.replace(had[1].start, had[1].end, strings.TrimPrefix(args, "args = "))
	if compactArray(string(f.text[had[1].start:had[1].end])) == compactArray(strings.TrimPrefix(args, "args = ")) {
		text = slices.Clone(f.text)
	}
	rest := &file{path: f.path, text: text}
	switch {
	case had[0] == nil:
		text = rest.replace(header.end, header.end, newline+command)
	case had[0].start < had[1].start:
		text = rest.replace(had[0].start, had[0].end, quoted(e.Command))
	default: // it comes after the arguments
		moved := len(text) - len(f.text)
		text = rest.replace(had[0].start+moved, had[0].end+moved, quoted(e.Command))
	}
	return text, shown, nil
}

// definesTable reports whether a key outside the wanted table defines a part of it.
func definesTable(whole, in, wanted []string) bool {
	n := min(len(whole), len(wanted))
	return slices.Equal(whole[:n], wanted[:n]) && !(len(in) >= len(wanted) && slices.Equal(in[:len(wanted)], wanted))
}

func quotedList(all []string) string {
	var parts []string
	for _, s := range all {
		parts = append(parts, quoted(s))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// compactArray returns an array without white space after brackets and commas. Simple strings are in double quotes.
func compactArray(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case ' ', '\t', '\r', '\n':
		case '"', '\'':
			end := i + 1
			for end < len(s) && s[end] != c {
				if c == '"' && s[end] == '\\' {
					end++
				}
				end++
			}
			text := s[i+1 : min(end, len(s))]
			if c == '\'' {
				b.WriteString(quoted(text))
			} else {
				b.WriteString(`"` + text + `"`)
			}
			i = end
		default:
			b.WriteByte(c)
		}
	}
	return strings.Replace(b.String(), ",]", "]", 1)
}
