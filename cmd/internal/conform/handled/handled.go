// Package handled reads the file to which the program under test appends a line for each handled message.
package handled

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"os"
)

// maxFile is the maximum number of bytes to read from the end of a file.
const maxFile = 32 << 20

// Lines returns the lines of a file, trimmed of surrounding space. It returns no lines if the file does not exist.
func Lines(file string) (iter.Seq[string], error) {
	info, err := os.Stat(file)
	switch {
	case os.IsNotExist(err):
		return of(nil), nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular(): // opening a pipe would wait for a writer
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
