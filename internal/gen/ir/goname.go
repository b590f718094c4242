package ir

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

// initialisms is the set of words that Go identifiers write entirely in upper case.
var initialisms = map[string]bool{
	"ACL": true, "API": true, "ASCII": true, "CPU": true, "CSS": true, "DNS": true, "EOF": true,
	"GUID": true, "HTML": true, "HTTP": true, "HTTPS": true, "ID": true, "IP": true, "JSON": true,
	"LHS": true, "MCP": true, "QPS": true, "RAM": true, "RHS": true, "RPC": true, "SLA": true,
	"SMTP": true, "SQL": true, "SSH": true, "TCP": true, "TLS": true, "TTL": true, "UDP": true,
	"UI": true, "UID": true, "URI": true, "URL": true, "UTF8": true, "UUID": true, "VM": true,
	"XML": true, "XMPP": true, "XSRF": true, "XSS": true, "YAML": true,
}

// separators maps word separators to their names. The names are used only if an identifier would otherwise be empty or
// collide. See spellOutSuffix.
var separators = map[rune]string{
	'-': "Minus", '_': "Underscore", '.': "Dot", ' ': "Space", '/': "Slash", ':': "Colon",
	',': "Comma", ';': "Semicolon", '\t': "Tab", '\n': "Newline",
}

// symbols maps symbols to their names, which become separate words. A $ within a name is an exception, because it only
// separates words.
var symbols = map[rune]string{
	'+': "Plus", '*': "Star", '#': "Hash", '@': "At", '$': "Dollar", '%': "Percent", '&': "And",
	'=': "Equal", '<': "Less", '>': "Greater", '!': "Not", '?': "Question", '~': "Tilde",
	'^': "Caret", '|': "Or", '(': "Open", ')': "Close", '[': "OpenBracket", ']': "CloseBracket",
	'{': "OpenBrace", '}': "CloseBrace", '"': "Quote", '\'': "Apostrophe", '`': "Backquote",
	'\\': "Backslash",
}

// GoName returns the exported Go identifier for the name s of an event, schema, member or enum value. It depends only
// on s. It joins words in camel case, capitalizes known initialisms and spells out symbols (+1 is Plus1, -1 is Minus1).
// A separator or $ between two digits becomes an underscore. If the result is not an exported identifier, GoName adds
// the prefix X. The empty string becomes Empty. Different names can result in the same identifier. Such a collision is
// reported when the identifiers are declared.
func GoName(s string) string { return ensureExported(Suffix(s)) }

// ensureExported adds the prefix X to a name that does not start with an upper-case letter.
func ensureExported(name string) string {
	if first := []rune(name)[0]; !unicode.IsUpper(first) {
		return "X" + name
	}
	return name
}

// Suffix is like GoName, but for the end of an identifier, such as a constant after the name of its type. It does not
// add X before a digit or a letter without case.
func Suffix(s string) string {
	if s == "" {
		return "Empty"
	}
	var b strings.Builder
	words := split(s)
	if len(words) == 0 {
		return spellAll(s)
	}
	shout := !strings.ContainsFunc(s, unicode.IsLower)
	for _, w := range words {
		if w.spelled {
			b.WriteString(w.text)
		} else {
			b.WriteString(capitalize(w.text, shout))
		}
	}
	return b.String()
}

// trimmed returns s without leading and trailing separators, which GoName ignores.
func trimmed(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return separators[r] != "" })
}

// spellOutSuffix is like Suffix, but it spells out leading and trailing separators. For example, _url becomes
// UnderscoreURL, and url_ becomes URLUnderscore.
func spellOutSuffix(s string) string {
	stem := trimmed(s)
	if stem == "" {
		return Suffix(s)
	}
	before, after, _ := strings.Cut(s, stem)
	return spellAll(before) + Suffix(stem) + spellAll(after)
}

// A word is a part of an identifier. The name of a symbol keeps its case.
type word struct {
	text    string
	spelled bool
}

// split splits s into words. A word is a run of letters and digits without a change of case, a spelled-out symbol, or
// "_" for a separator between two digits.
func split(s string) []word {
	var words []word
	runes := []rune(s)
	start := -1
	flush := func(end int) {
		if start >= 0 {
			for _, w := range splitCase(runes[start:end]) {
				words = append(words, word{text: w})
			}
			start = -1
		}
	}
	for i, r := range runes {
		if isWord(r) {
			if start < 0 {
				start = i
			}
			continue
		}
		flush(i)
		before := i > 0 && unicode.IsDigit(runes[i-1])
		after := i+1 < len(runes) && unicode.IsDigit(runes[i+1])
		within := r == '$' && i > 0 && i+1 < len(runes)
		switch {
		case separators[r] == "" && !within:
			words = append(words, word{spell(r), true})
		case before && after:
			words = append(words, word{"_", true})
		case r == '-' && i == 0 && after:
			words = append(words, word{"Minus", true})
		}
	}
	flush(len(runes))
	return words
}

// splitCase splits a run of letters and digits into words at changes of case, as in fooBar and HTTPServer. A plural s
// remains part of its initialism, as in userIDs.
func splitCase(run []rune) []string {
	var words []string
	start := 0
	for i := 1; i < len(run); i++ {
		up := unicode.IsUpper(run[i])
		prevUp := unicode.IsUpper(run[i-1])
		switch {
		case up && !prevUp:
		case up && i+1 < len(run) && unicode.IsLower(run[i+1]) && !pluralAt(run, i+1):
		default:
			continue
		}
		words = append(words, string(run[start:i]))
		start = i
	}
	return append(words, string(run[start:]))
}

// pluralAt reports whether the lower-case letter at i is a plural s after upper-case letters.
func pluralAt(run []rune, i int) bool {
	return run[i] == 's' && (i+1 == len(run) || unicode.IsUpper(run[i+1]))
}

// capitalize capitalizes one word. shout indicates that the whole name is in upper case. A final s is then not
// recognized as a plural.
func capitalize(w string, shout bool) string {
	upper := strings.ToUpper(w)
	if initialisms[upper] {
		return upper
	}
	if stem, ok := strings.CutSuffix(upper, "S"); ok && initialisms[stem] && !shout {
		return stem + "s"
	}
	runes := []rune(w)
	if shout {
		for i := range runes {
			runes[i] = unicode.ToLower(runes[i])
		}
	}
	runes[0] = unicode.ToUpper(runes[0])
	return string(runes)
}

// spellAll spells out every character of s.
func spellAll(s string) string {
	var b strings.Builder
	for _, r := range s {
		b.WriteString(spell(r))
	}
	return b.String()
}

func spell(r rune) string {
	if s := symbols[r]; s != "" {
		return s
	}
	if s := separators[r]; s != "" {
		return s
	}
	if isWord(r) {
		return string(r)
	}
	return fmt.Sprintf("U%04X", r)
}

// isWord reports whether r is valid in an identifier. Go treats Hangul fillers as letters, but they are invisible.
func isWord(r rune) bool { return (unicode.IsLetter(r) || unicode.IsDigit(r)) && !plain.Invisible(r) }
