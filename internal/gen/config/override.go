package config

import (
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// readOverrides reads the overrides section, which changes third-party schemas.
func (l *loader) readOverrides(root *source.Node) {
	var list []schema.Override
	for _, n := range root.ItemsOf("overrides", source.Object) {
		v := schema.Override{Dir: l.config.Dir, Range: n.Range, File: n.Word("file"), At: n.Word("at"),
			Remove: n.Get("remove").True(), Replace: n.Get("replace"), GoName: n.Get("x-go-name"), GoType: n.Get("x-go-type")}
		if at := n.Get("file"); at != nil {
			l.checkPattern(at)
		}
		list = append(list, v)
	}
	if len(list) > 0 && !source.HasErrors(l.Found) {
		l.config.Overrides = schema.NewOverrides(list...)
	}
}

// A Silence hides the diagnostics with a given code in text output.
type Silence struct {
	// Code is a diagnostic code of the generator. Its severity is not error.
	Code string
	// Files is a glob pattern relative to Dir. If it is empty, the silence applies to all files.
	Dir, Files string
	// Reason explains why the diagnostics are silenced.
	Reason string
	at     source.Range
}

// Covers reports whether the silence applies to the diagnostic. It never applies to errors.
func (s Silence) Covers(d source.Diagnostic) bool {
	return d.Code == s.Code && d.Severity != source.Error && s.matches(d.Range.Start.File)
}

// matches reports whether Files matches a file.
func (s Silence) matches(file string) bool { return s.Files == "" || rule.Covers(s.Dir, s.Files, file) }

// readSilences reads the silenced codes.
func (l *loader) readSilences(root *source.Node) {
	for _, n := range root.ItemsOf("silence", source.Object) {
		s := Silence{Dir: l.config.Dir, Code: n.Word("code"), Files: n.Word("files"), Reason: strings.TrimSpace(n.Word("reason")), at: n.Range}
		if at := n.Get("code"); at != nil {
			code, ok := source.Lookup(s.Code)
			switch {
			case !ok:
				l.ReportOnce(source.New("MCPE407", at.Range, "unknown code %s", s.Code))
			case code.Severity == source.Error:
				l.ReportOnce(source.New("MCPE407", at.Range, "%s is an error, and errors are not silenced", s.Code))
			}
		}
		if at := n.Get("files"); at != nil {
			l.checkPattern(at)
		}
		l.config.Silences = append(l.config.Silences, s)
	}
}
