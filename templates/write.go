package templates

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// An ExistsError lists existing files that conflict with a scaffold.
type ExistsError struct {
	Dir   string
	Paths []string
}

func (e *ExistsError) Error() string {
	return fmt.Sprintf("%s already has %s; nothing was written", e.Dir, strings.Join(e.Paths, ", "))
}

// forgeFiles lists files that a new repository on a forge may contain. Write keeps them. If the value is true, the file
// is a list, and Write appends missing lines.
var forgeFiles = map[string]bool{"README.md": false, ".gitignore": true, ".gitattributes": true}

// Present lists the existing files that [Write] kept or extended.
type Present struct {
	// Kept lists the paths of unchanged files. Extended lists the paths of files with appended lines.
	Kept, Extended []string
}

// Write creates files in dir, which need not exist. Afterwards, it calls then, which may create the paths in taken. If
// any of the files or paths already exists, it writes nothing and returns an [ExistsError] that lists all of them. It
// keeps an existing README.md, and appends missing lines to an existing .gitignore or .gitattributes.
//
// Write does not follow a symbolic link out of dir, and does not extend a list that is a symbolic link. If a write or
// the call of then fails, it removes the new files and restores the lists.
func Write(dir string, files []File, then func() error, taken ...string) (present Present, err error) {
	w := &undoLog{dir: dir}
	defer func() { err = w.end(err) }()
	if err := w.open(); err != nil {
		return present, err
	}
	var fresh []File
	exists := &ExistsError{Dir: dir}
	for _, f := range files {
		is, err := w.has(f.Path)
		if err != nil {
			return present, err
		}
		switch isList, known := forgeFiles[f.Path]; {
		case !is:
			fresh = append(fresh, f)
		case !known:
			exists.Paths = append(exists.Paths, f.Path)
		case isList:
			lacks, err := w.addList(f)
			if err != nil {
				return present, err
			}
			if lacks {
				present.Extended = append(present.Extended, f.Path)
				continue
			}
			fallthrough
		default:
			present.Kept = append(present.Kept, f.Path)
		}
	}
	for _, p := range taken {
		is, err := w.has(p)
		if err != nil {
			return present, err
		}
		if is {
			exists.Paths = append(exists.Paths, p)
		}
	}
	if len(exists.Paths) > 0 {
		return present, exists
	}
	for _, f := range fresh {
		if err := w.create(f); err != nil {
			return present, err
		}
	}
	for _, l := range w.lists {
		if _, err := l.file.WriteString(l.more); err != nil {
			return present, err
		}
	}
	for _, p := range taken {
		if err := w.makeDir(path.Dir(p)); err != nil {
			return present, err
		}
	}
	w.taken = taken
	return present, then()
}

// An undoLog records the changes made by [Write], so that they can be undone.
type undoLog struct {
	dir  string
	root *os.Root
	// parents lists the directories created for dir. made lists the files and directories created below dir. taken
	// lists the paths that then may have created.
	parents, made, taken []string
	lists                []list
}

// A list is a file to append lines to.
type list struct {
	file *os.File
	size int64 // without them
	more string
}

// open creates the directory and opens it.
func (w *undoLog) open() (err error) {
	for at := filepath.Clean(w.dir); ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			break
		}
		w.parents = append(w.parents, at)
	}
	slices.Reverse(w.parents)
	for i, name := range w.parents {
		if err := os.Mkdir(name, 0o777); err != nil {
			w.parents = w.parents[:i]
			return err
		}
	}
	w.root, err = os.OpenRoot(w.dir)
	return err
}

func (w *undoLog) has(name string) (bool, error) {
	_, err := w.root.Lstat(filepath.FromSlash(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w; nothing was written", w.dir, err)
	}
	return true, nil
}

// addList finds the missing lines of a list, ignoring comments, and opens the list to append them. It returns false if
// no line is missing.
func (w *undoLog) addList(f File) (bool, error) {
	info, err := w.root.Lstat(f.Path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file, and would get lines", f.Path)
	}
	var old []byte
	if err == nil {
		old, err = w.root.ReadFile(f.Path)
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w; nothing was written", w.dir, err)
	}
	have := map[string]bool{}
	for line := range strings.Lines(string(old)) {
		have[strings.TrimSpace(line)] = true
	}
	more := ""
	for line := range strings.Lines(string(f.Content)) {
		if l := strings.TrimSpace(line); l != "" && !strings.HasPrefix(l, "#") && !have[l] {
			more += l + "\n"
		}
	}
	if more == "" {
		return false, nil
	}
	if len(old) > 0 && old[len(old)-1] != '\n' {
		more = "\n" + more
	}
	to, err := w.root.OpenFile(f.Path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return false, fmt.Errorf("%s: %w; nothing was written", w.dir, err)
	}
	w.lists = append(w.lists, list{to, int64(len(old)), more})
	return true, nil
}

// create writes a new file. It does not overwrite a file that was created after the check.
func (w *undoLog) create(f File) error {
	if err := w.makeDir(path.Dir(f.Path)); err != nil {
		return err
	}
	to, err := w.root.OpenFile(filepath.FromSlash(f.Path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	w.made = append(w.made, f.Path)
	_, err = to.Write(f.Content)
	return errors.Join(err, to.Close())
}

// makeDir creates a directory below the root, including its parents.
func (w *undoLog) makeDir(name string) error {
	if name == "." {
		return nil
	}
	if info, err := w.root.Stat(filepath.FromSlash(name)); err == nil && info.IsDir() {
		return nil
	}
	if err := w.makeDir(path.Dir(name)); err != nil {
		return err
	}
	err := w.root.Mkdir(filepath.FromSlash(name), 0o777)
	if err == nil {
		w.made = append(w.made, name)
	}
	return err
}

// end closes all open files. If err is not nil, it first removes the created files. It keeps directories with other
// content.
func (w *undoLog) end(err error) error {
	var left []error
	for _, l := range w.lists {
		if err != nil {
			left = append(left, l.file.Truncate(l.size))
		}
		left = append(left, l.file.Close())
	}
	if w.root != nil {
		if err != nil {
			left = append(left, w.remove())
		}
		left = append(left, w.root.Close())
	}
	if err != nil {
		for _, name := range slices.Backward(w.parents) {
			_ = os.Remove(name)
		}
	}
	if left := errors.Join(left...); left != nil {
		return errors.Join(err, left)
	}
	return err
}

// remove removes the created files below the root. The error lists the remaining files.
func (w *undoLog) remove() error {
	var left []error
	for _, name := range w.taken {
		left = append(left, w.root.RemoveAll(filepath.FromSlash(name)))
	}
	for _, name := range slices.Backward(w.made) {
		err := w.root.Remove(filepath.FromSlash(name))
		if info, e := w.root.Lstat(filepath.FromSlash(name)); e == nil && !info.IsDir() {
			left = append(left, err)
		}
	}
	return errors.Join(left...)
}
