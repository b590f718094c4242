package schema

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// Load reads the event files at paths and every file that they refer to, and checks them. It reports
// everything that is wrong with them at once; the set is complete only when no diagnostic is of
// severity error.
func Load(paths []string, o Options) (*Set, []source.Diagnostic) {
	if o.ReadFile == nil {
		o.ReadFile = os.ReadFile
	}
	l := &loader{
		set: &Set{places: make(map[*source.Node]*place), files: make(map[string]*opened), kinds: make(map[*source.Node]kinds)},
		o:   o,
	}
	l.set.refs = mappings(o.Refs)
	for _, path := range paths {
		f := l.open(path, true, nil, nil)
		if f.fault != "" {
			l.Report(source.New("MCPE100", source.InFile(path), "%s", f.fault))
		}
	}
	// Indexing a schema may open files and so add roots.
	for i := 0; i < len(l.roots); i++ {
		l.index(l.roots[i])
	}
	l.checkRefs()
	l.checkMappings()
	l.checkLoops()
	for _, r := range l.roots {
		l.checkMeta(r)
	}
	l.spread()
	l.checkEvents()
	for _, r := range l.roots {
		l.checkSamples(r)
	}
	return l.set, source.Sort(l.Found)
}

// loader is the state of one Load.
type loader struct {
	source.Reader
	set   *Set
	o     Options
	roots []*root
	// events finds the first event of each name.
	events map[string]*Event
	// misspelt remembers what each unknown keyword is near to.
	misspelt map[string]string
}

// opened is a path that was read, or why it was not.
type opened struct {
	file  *File
	fault string
	// garbled tells that the file was read but is no YAML; that is reported where it is.
	garbled bool
}

// open returns the file at path, which it reads when it is met for the first time; base is the URL
// that it stands for, nil when it is reached as a file, and from the dialect of the schema that
// refers to it.
func (l *loader) open(path string, given bool, base *url.URL, from *dialect) *opened {
	key := absolute(path)
	if f, ok := l.set.files[key]; ok {
		return f
	}
	f := &opened{}
	l.set.files[key] = f
	content, err := l.o.ReadFile(path)
	if err != nil {
		f.fault = "the file cannot be read: " + reason(err)
		return f
	}
	name := filepath.Base(path)
	f.file = &File{Path: path, Stem: strings.TrimSuffix(name, filepath.Ext(name)), Given: given, named: make(map[string]*Entry)}
	l.set.Files = append(l.set.Files, f.file)
	node, found := source.Parse(path, content)
	l.Report(found...)
	if node == nil {
		f.garbled = true
		f.file.Root = &source.Node{Kind: source.Object, Range: source.InFile(path)}
		return f
	}
	f.file.Root = node
	if !given && node.Get("schemas") == nil && node.Get("events") == nil {
		l.document(f.file, base, from)
	} else {
		l.file(f.file)
	}
	return f
}

// Unreadable is the finding that the file at path could not be read.
func Unreadable(path string, err error) source.Diagnostic {
	return source.New("MCPE100", source.InFile(path), "the file cannot be read: %s", reason(err))
}

// reason says why a file cannot be read without repeating its path.
func reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}
