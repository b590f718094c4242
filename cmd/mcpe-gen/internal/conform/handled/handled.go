// Package handled reads what a judged program says it took: a file to which it adds a line for each message.
package handled

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"os"
)

// maxFile bounds what is read of a file, from its end.
const maxFile = 32 << 20

// Lines are the lines of a file, without the space around them. A file that is not there yet has none.
func Lines(file string) (iter.Seq[string], error) {
	info, err := os.Stat(file)
	switch {
	case os.IsNotExist(err):
		return of(nil), nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular(): // to open a pipe would wait for who writes to it
		return nil, fmt.Errorf("%s is not a file", file)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > maxFile {
		if _, err := f.Seek(-maxFile, io.SeekEnd); err != nil {
			return nil, err
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, err
	}
	return of(text), nil
}

func of(text []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range bytes.Lines(text) {
			if !yield(string(bytes.TrimSpace(line))) {
				return
			}
		}
	}
}
