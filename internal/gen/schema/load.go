package schema

import (
	"net/url"
	"path/filepath"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/parallel"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// Load reads and checks the event files at paths and all files that they refer to. The set is incomplete if a
// diagnostic has severity error.
func Load(paths []string, o Options) (*Set, []source.Diagnostic) {
	if o.ReadFile == nil {
		o.ReadFile = source.ReadFile
	}
	l := &loader{
		set:     &Set{places: make(map[*source.Node]*place), files: make(map[string]*openedFile), kinds: make(map[*source.Node]kinds), Formats: make(map[string]bool), published: newPublications()},
		o:       o,
		entries: make(map[*Entry]*root),
	}
	l.set.refs = mappings(o.Refs)
	l.readAhead(paths)
	for _, path := range paths {
		f := l.openFile(path, true, nil, nil)
		if f.fault != "" {
			l.Report(source.New("MCPE100", source.InFile(path), "%s", f.fault))
		}
	}
	// Indexing a schema can open other files, which appends to l.roots.
	for i := 0; i < len(l.roots); i++ {
		l.indexRoot(l.roots[i])
	}
	l.distinguishStems()
	l.checkRefs()
	l.checkMappings()
	l.checkLoops()
	l.checkMeta()
	l.markBrokenUsers()
	l.checkEvents()
	l.checkTasks()
	for _, r := range l.roots {
		l.checkSamples(r)
	}
	return l.set, source.Sort(l.Found)
}

// loader is the state of one Load call.
type loader struct {
	source.Collector
	set   *Set
	o     Options
	roots []*root
	// entries maps entries to their roots.
	entries map[*Entry]*root
	// parsedFiles caches the given files, which are read before references are followed.
	parsedFiles map[string]*parsedFile
	// events maps each event name to the first event with that name in all files.
	events map[string]*Event
	// tasks maps each task name to the first task with that name in all files. conversation is the first conversation.
	tasks        map[string]*Task
	conversation *Conversation
	// bodies caches webhook bodies by provider, event and action.
	bodies map[[3]string]*body
	// hasPrivate reports whether any schema has x-private.
	hasPrivate bool
	// nearKeywords caches the results of nearKeyword.
	nearKeywords map[string]string
}

// A parsedFile is a file that was read and parsed, but not checked.
type parsedFile struct {
	path    string
	content []byte
	err     error
	node    *source.Node
	found   []source.Diagnostic
}

func (t *parsedFile) read(o Options) { t.content, t.err = o.ReadFile(t.path) }

func (t *parsedFile) parse() {
	if t.err == nil {
		t.node, t.found = source.Parse(t.path, t.content)
	}
}

// readAhead reads and parses the given files in parallel.
func (l *loader) readAhead(paths []string) {
	l.parsedFiles = make(map[string]*parsedFile, len(paths))
	var all []*parsedFile
	for _, path := range paths {
		if key := absPath(path); l.parsedFiles[key] == nil {
			t := &parsedFile{path: path}
			t.read(l.o)
			l.parsedFiles[key] = t
			all = append(all, t)
		}
	}
	parallel.Do(len(all), func(i int) { all[i].parse() })
}

// An openedFile is a file that was read, or the reason why reading it failed.
type openedFile struct {
	file  *File
	fault string
	// isInvalid reports whether the file was read but is not valid YAML.
	isInvalid bool
}

// openFile returns the file at path and reads it only once. base is the URL that is mapped to the file, or nil if the
// reference is a path. from is the schema that refers to the file.
func (l *loader) openFile(path string, given bool, base *url.URL, from *root) *openedFile {
	key := absPath(path)
	if f, ok := l.set.files[key]; ok {
		return f
	}
	f := &openedFile{}
	l.set.files[key] = f
	read := l.parsedFiles[key]
	if read == nil {
		read = &parsedFile{path: path}
		read.read(l.o)
		read.parse()
	}
	if read.err != nil {
		f.fault = "the file cannot be read: " + source.Reason(read.err)
		return f
	}
	name := filepath.Base(path)
	f.file = &File{Path: path, Stem: strings.TrimSuffix(name, filepath.Ext(name)), Given: given, named: make(map[string]*Entry)}
	l.set.Files = append(l.set.Files, f.file)
	l.Report(read.found...)
	node := read.node
	if node == nil {
		f.isInvalid = true
		f.file.Root = &source.Node{Kind: source.Object, Range: source.InFile(path)}
		return f
	}
	l.set.Applied = append(l.set.Applied, l.o.Overrides.Apply(path, node)...)
	f.file.Root = node
	if !given && node.Get("schemas") == nil && node.Get("events") == nil {
		l.readDocument(f.file, base, from)
	} else {
		l.readFile(f.file)
	}
	return f
}
