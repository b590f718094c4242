package config

import (
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// readOverrides reads the overrides section, which changes third-party schemas.
func (l *loader) readOverrides(o *source.ObjectReader) {
	var list []schema.Override
	for _, n := range o.List("overrides") {
		before := len(l.Found)
		e := l.Object(n, "an override", []string{"file", "at"}, []string{"x-go-name", "x-go-type", "replace", "remove"})
		if e == nil {
			continue
		}
		v := schema.Override{Dir: l.config.Dir, Range: n.Range, Remove: e.Flag("remove", false), Replace: n.Get("replace")}
		if text, at := e.Text("file"); at != nil && l.checkRelative(at, "file") && l.checkPattern(at) {
			v.File = text
		}
		if text, at := e.Text("at"); at != nil {
			if _, ok := source.SplitPointer(text); !ok {
				l.Report(source.New("MCPE123", at.Range, "at %q is not a JSON Pointer", text).WithHint("write /definitions/user; ~1 stands for a slash"))
			}
			v.At = text
		}
		if text, at := e.Text("x-go-name"); at != nil {
			if v.GoName = at; !schema.ValidGoName(text) {
				l.Report(source.New("MCPE124", at.Range, "%q is not an exported Go identifier", text).WithHint(schema.GoNameForm))
			}
		}
		if text, at := e.Text("x-go-type"); at != nil {
			if v.GoType = at; !schema.ValidGoType(text) {
				l.Report(source.New("MCPE124", at.Range, "%q is not an import path and a type", text).WithHint("as in github.com/google/uuid.UUID"))
			}
		}
		if len(l.Found) == before {
			l.checkOverride(n, v)
		}
		if len(l.Found) == before {
			list = append(list, v)
		}
	}
	if len(list) > 0 {
		l.config.Overrides = schema.NewOverrides(list...)
	}
}

// checkOverride checks that an override makes exactly one kind of change.
func (l *loader) checkOverride(n *source.Node, v schema.Override) {
	switch remove := n.Get("remove"); {
	case remove != nil && !v.Remove:
		l.Report(source.New("MCPE123", remove.Range, "remove can only be true").WithHint("leave the override out"))
	case v.Remove && (v.Replace != nil || v.GoName != nil || v.GoType != nil):
		l.Report(source.New("MCPE123", remove.Range, "an override cannot both remove and change a place").WithHint("write two overrides"))
	case v.Remove && v.At == "":
		l.Report(source.New("MCPE123", n.Get("at").Range, "a whole file cannot be removed"))
	case v.Does() == "":
		l.Report(source.New("MCPE122", n.Range, "an override needs x-go-name, x-go-type, replace or remove"))
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
}

// Covers reports whether the silence applies to the diagnostic. It never applies to errors.
func (s Silence) Covers(d source.Diagnostic) bool {
	return d.Code == s.Code && d.Severity != source.Error &&
		(s.Files == "" || rule.Covers(s.Dir, s.Files, d.Range.Start.File))
}

// readSilences reads the silenced codes.
func (l *loader) readSilences(o *source.ObjectReader) {
	for _, n := range o.List("silence") {
		before := len(l.Found)
		e := l.Object(n, "a silence", []string{"code", "reason"}, []string{"files"})
		if e == nil {
			continue
		}
		s := Silence{Dir: l.config.Dir}
		if text, at := e.Text("code"); at != nil {
			if s.Code = text; l.silenceFault(at) != "" {
				l.Report(source.New("MCPE407", at.Range, "%s", l.silenceFault(at)))
			}
		}
		if text, at := e.Text("files"); at != nil && l.checkRelative(at, "files") && l.checkPattern(at) {
			s.Files = text
		}
		if text, at := e.Text("reason"); at != nil {
			if s.Reason = strings.TrimSpace(text); s.Reason == "" {
				l.Report(source.New("MCPE123", at.Range, "reason is empty").WithHint("say why it is right as it is"))
			}
		}
		if len(l.Found) == before {
			l.config.Silences = append(l.config.Silences, s)
		}
	}
}

// silenceFault returns the reason why the code cannot be silenced, or "".
func (l *loader) silenceFault(at *source.Node) string {
	code, ok := source.Lookup(at.Text)
	switch {
	case !ok && strings.HasPrefix(at.Text, "MCPE"):
		return "there is no code " + at.Text
	case !ok:
		return at.Text + " is not a code of the form MCPE204; for a rule of lint write lint: ignore"
	case code.Severity == source.Error:
		return at.Text + " is an error, and errors are not silenced"
	}
	return ""
}
