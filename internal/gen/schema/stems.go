package schema

import (
	"path/filepath"
	"strings"
)

// distinguishStems makes the stems of files with equal base names unique by prepending directory names. The names of
// output files and schemas depend on the stem, so output files do not overwrite each other.
func (l *loader) distinguishStems() {
	base := make(map[*File]string, len(l.set.Files))
	beside := make(map[string]int)
	place := func(f *File) string { return strings.ToLower(filepath.Join(filepath.Dir(absPath(f.Path)), base[f])) }
	for _, f := range l.set.Files {
		base[f] = f.Stem
		beside[place(f)]++
	}
	for depth := 1; ; depth++ {
		byStem := make(map[string][]*File)
		for _, f := range l.set.Files {
			if beside[place(f)] > 1 {
				continue // a.yaml and a.json in one directory: directory names do not help
			}
			key := strings.ToLower(f.Stem) // file systems may fold case
			byStem[key] = append(byStem[key], f)
		}
		longer := false
		for _, files := range byStem {
			if len(files) < 2 {
				continue
			}
			for _, f := range files {
				if stem, ok := longerStem(f.Path, base[f], depth); ok {
					longer = longer || stem != f.Stem
					f.Stem = stem
				}
			}
		}
		if !longer {
			break
		}
	}
	for _, f := range l.set.Files {
		if f.Document && f.Stem != base[f] {
			f.Schemas[0].Name = f.Stem
			l.entries[f.Schemas[0]].name = f.Stem
		}
	}
}

// longerStem prepends the names of the last depth directories to the stem. If the path has fewer directories, it
// returns false.
func longerStem(path, stem string, depth int) (string, bool) {
	abs := absPath(path)
	for range depth {
		dir := filepath.Dir(abs)
		if dir == abs || filepath.Dir(dir) == dir {
			return "", false
		}
		stem = strings.Map(plainRune, filepath.Base(dir)) + "_" + stem
		abs = dir
	}
	return stem, true
}

// plainRune returns r if it is valid in file and schema names, or an underscore.
func plainRune(r rune) rune {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_':
		return r
	}
	return '_'
}
