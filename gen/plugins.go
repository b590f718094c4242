package gen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/diagnostic"
	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/gen/plugin"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// A Plugin is a user-provided program that generates files from the model.
type Plugin struct {
	// Name is the name of the plugin in the configuration.
	Name string
	// Program is the command to run. Options is sent to the plugin.
	Program plugin.Program
	Options json.RawMessage
	// Out is the output directory. Files from an earlier run of the plugin that this run does not write are deleted.
	Out string
}

// Plugins runs plugins on the model of all packages in the plan and adds their files to the plan. If a plugin returns a
// diagnostic of severity error, the plan is incomplete and must not be applied. See PLUG-1 and PLUG-2.
func (p *Plan) Plugins(ctx context.Context, dir string, plugins []Plugin) ([]diagnostic.Diagnostic, error) {
	var found []source.Diagnostic
	for _, of := range plugins {
		ds, err := p.planPlugin(ctx, dir, of)
		if err != nil {
			return found, fmt.Errorf("plugin %s: %w", of.Name, err)
		}
		found = append(found, ds...)
	}
	p.sort()
	return source.Sort(found), p.checkDistinct()
}

func (p *Plan) planPlugin(ctx context.Context, dir string, of Plugin) ([]source.Diagnostic, error) {
	r := Request{Dir: dir}
	home, err := locate(r.path(of.Out))
	if err != nil {
		return nil, err
	}
	request := plugin.Request{Version: model.Version, Packages: []*model.Package{}}
	if len(of.Options) > 0 {
		request.Options = of.Options
	}
	for _, m := range p.models {
		request.Packages = append(request.Packages, m.describe(home))
	}
	answer, err := of.Program.Run(ctx, request)
	if err != nil {
		return nil, err
	}
	found := diagnosticsOf(of.Name, answer.Diagnostics)
	if source.HasErrors(found) {
		return found, nil
	}
	t := target{out: of.Out, home: home, files: map[string][]byte{}, present: map[string][]byte{}}
	for _, f := range answer.Files {
		t.files[f.Path] = []byte(f.Text)
	}
	written, err := writtenBefore(home.dir, of.Name)
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(t.files))
	if len(names) > 0 {
		t.files[plugin.ListFile] = encodeList(outputList{Plugin: of.Name, Files: names})
	}
	for _, name := range slices.Concat(names, written, []string{plugin.ListFile}) {
		content, err := readBelow(home.dir, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		default:
			t.present[name] = content
		}
	}
	t.isGenerated = func(name string) bool {
		return name == plugin.ListFile || slices.Contains(written, name) || bytes.Equal(t.present[name], t.files[name])
	}
	return found, p.compare(t)
}

// An outputList is the content of plugin.ListFile. It names the plugin that owns an output directory and the files that
// the plugin wrote.
type outputList struct {
	Plugin string   `json:"plugin"`
	Files  []string `json:"files"`
}

func encodeList(l outputList) []byte {
	text, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		panic(err) // strings always encode
	}
	return append(text, '\n')
}

// writtenBefore returns the files written by earlier runs of the plugin.
func writtenBefore(dir, name string) ([]string, error) {
	text, err := readBelow(dir, plugin.ListFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var l outputList
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, fmt.Errorf("%s in its output directory is damaged: %w", plugin.ListFile, err)
	}
	if l.Plugin != name {
		return nil, usage("its output directory has the files of plugin %s: choose another, or delete %s there with the files that it lists", l.Plugin, plugin.ListFile)
	}
	for _, f := range l.Files {
		if err := plugin.CheckPath(f); err != nil {
			return nil, fmt.Errorf("%s in its output directory is damaged: %w", plugin.ListFile, err)
		}
	}
	return l.Files, nil
}

// readBelow reads a file below dir. It rejects symbolic links in the path, because a write could follow them out of
// dir.
func readBelow(dir, name string) ([]byte, error) {
	at := dir
	for _, part := range strings.Split(name, "/") {
		at = filepath.Join(at, part)
		info, err := os.Lstat(at)
		if err != nil {
			return nil, err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return nil, usage("the path %q contains a symbolic link, which may lead out of the output directory", name)
		}
		if info.Mode().IsRegular() {
			continue
		}
		if !info.IsDir() || at == filepath.Join(dir, filepath.FromSlash(name)) {
			return nil, usage("%q exists but is not a regular file", name)
		}
	}
	return os.ReadFile(at)
}

var position = regexp.MustCompile(`^(.+):([0-9]+):([0-9]+)$`)

// diagnosticsOf converts the diagnostics of a plugin.
func diagnosticsOf(name string, said []plugin.Diagnostic) []source.Diagnostic {
	severities := map[string]source.Severity{"error": source.Error, "warning": source.Warning, "note": source.Note}
	var found []source.Diagnostic
	for _, s := range said {
		at := source.Range{}
		if m := position.FindStringSubmatch(s.Pos); m != nil {
			line, _ := strconv.Atoi(m[2])
			column, _ := strconv.Atoi(m[3])
			at.Start = source.Position{File: m[1], Line: line, Column: column}
			at.End = at.Start
		}
		text := s.Message
		if s.Code != "" {
			text = s.Code + ": " + text
		}
		d := source.New("MCPE310", at, "plugin %s: %s", name, text)
		d.Severity = severities[s.Severity]
		found = append(found, d)
	}
	return found
}
