package schema

import (
	"errors"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/parallel"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// Load reads the event files at paths and every file that they refer to, and checks them. It reports all problems in
// one call. The set is complete only if no diagnostic has severity error.
func Load(paths []string, o Options) (*Set, []source.Diagnostic) {
	if o.ReadFile == nil {
		o.ReadFile = source.ReadFile
	}
	l := &loader{
		set:     &Set{places: make(map[*source.Node]*place), files: make(map[string]*opened), kinds: make(map[*source.Node]kinds), published: newPublications()},
		o:       o,
		entries: make(map[*Entry]*root),
	}
	l.set.refs = mappings(o.Refs)
	l.readAhead(paths)
	for _, path := range paths {
		f := l.open(path, true, nil, nil)
		if f.fault != "" {
			l.Report(source.New("MCPE100", source.InFile(path), "%s", f.fault))
		}
	}
	// Indexing a schema may open files, which adds roots.
	for i := 0; i < len(l.roots); i++ {
		l.index(l.roots[i])
	}
	l.distinguish()
	l.checkRefs()
	l.checkMappings()
	l.checkLoops()
	l.checkMeta()
	l.spread()
	l.checkEvents()
	l.checkTasks()
	for _, r := range l.roots {
		l.checkSamples(r)
	}
	return l.set, source.Sort(l.Found)
}

// loader is the state of one Load call.
type loader struct {
	source.Reader
	set   *Set
	o     Options
	roots []*root
	// entries maps entries to their roots.
	entries map[*Entry]*root
	// ahead holds the given files, which are read before any reference is followed.
	ahead map[string]*text
	// events holds the first event with each name.
	events map[string]*Event
	// tasks holds the first task with each name, and talk the first conversation.
	tasks map[string]*Task
	talk  *Conversation
	// bodies holds the webhook bodies that a `from:` names.
	bodies map[[3]string]*body
	// misspelt caches the nearest keyword of each unknown keyword.
	misspelt map[string]string
}

// text is the content of a file before it is interpreted.
type text struct {
	path    string
	content []byte
	err     error
	node    *source.Node
	found   []source.Diagnostic
}

func (t *text) read(o Options) { t.content, t.err = o.ReadFile(t.path) }

func (t *text) parse() {
	if t.err == nil {
		t.node, t.found = source.Parse(t.path, t.content)
	}
}

// readAhead reads and parses the given files in parallel.
func (l *loader) readAhead(paths []string) {
	l.ahead = make(map[string]*text, len(paths))
	var all []*text
	for _, path := range paths {
		if key := absolute(path); l.ahead[key] == nil {
			t := &text{path: path}
			t.read(l.o)
			l.ahead[key] = t
			all = append(all, t)
		}
	}
	parallel.Do(len(all), func(i int) { all[i].parse() })
}

// opened is a file that was read, or the reason that reading failed.
type opened struct {
	file  *File
	fault string
	// garbled reports that the file was read but is not valid YAML. The parser reports the position.
	garbled bool
}

// open returns the file at path, which it reads on the first call. base is the URL that the file stands for, nil if
// it is reached by path, and from is the schema that refers to it.
func (l *loader) open(path string, given bool, base *url.URL, from *root) *opened {
	key := absolute(path)
	if f, ok := l.set.files[key]; ok {
		return f
	}
	f := &opened{}
	l.set.files[key] = f
	read := l.ahead[key]
	if read == nil {
		read = &text{path: path}
		read.read(l.o)
		read.parse()
	}
	if read.err != nil {
		f.fault = "the file cannot be read: " + Reason(read.err)
		return f
	}
	name := filepath.Base(path)
	f.file = &File{Path: path, Stem: strings.TrimSuffix(name, filepath.Ext(name)), Given: given, named: make(map[string]*Entry)}
	l.set.Files = append(l.set.Files, f.file)
	l.Report(read.found...)
	node := read.node
	if node == nil {
		f.garbled = true
		f.file.Root = &source.Node{Kind: source.Object, Range: source.InFile(path)}
		return f
	}
	l.set.Applied = append(l.set.Applied, l.o.Overrides.Apply(path, node)...)
	f.file.Root = node
	if !given && node.Get("schemas") == nil && node.Get("events") == nil {
		l.document(f.file, base, from)
	} else {
		l.file(f.file)
	}
	return f
}

// Unreadable returns the finding for a file that could not be read.
func Unreadable(path string, err error) source.Diagnostic {
	return source.New("MCPE100", source.InFile(path), "the file cannot be read: %s", Reason(err))
}

// Reason returns the reason for a read error without the path.
func Reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}
