package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// A Header is the first line of a file, with the name and version of its format. A release that changes the format
// increases the version and can read files of lower versions.
type Header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
}

// Accept returns an error unless the header found equals h.
func (h Header) Accept(found Header) error {
	switch {
	case found == h:
		return nil
	case found.Format == "" && found.Version > 0:
		return found.Unreleased()
	case found.Format != h.Format:
		return fmt.Errorf("it is not a file of %s", h.Format)
	case found.Version > h.Version:
		return fmt.Errorf("a newer release wrote it (version %d, this release knows %d); upgrade mcpe-gen", found.Version, h.Version)
	}
	return fmt.Errorf("corrupted: version %d", found.Version)
}

// Unreleased returns the error for a file with the header h that was written by a build before the first release.
func (h Header) Unreleased() error {
	return fmt.Errorf("it was made by an unreleased build of mcpe-gen (version %d); use a new file", h.Version)
}

// load reads the file, if it exists, moves damaged lines to another file and logs them.
func (j *Journal) load(ctx context.Context, f Format) error {
	info, err := os.Stat(j.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file; name another one")
	}
	file, err := os.OpenFile(j.path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; let this process read and write it, or name another file", err)
	}
	if err != nil {
		return err
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	bad, whole, err := j.read(content, f)
	if err == nil && whole && len(bad) == 0 {
		j.file, j.size = file, int64(len(content))
		return nil
	}
	if err = errors.Join(err, file.Close()); err != nil || len(bad) == 0 {
		return err
	}
	return j.repair(ctx, bad, f)
}

// read loads the entries of a file and returns the damaged lines. whole is false if the last line is incomplete because
// the process was killed before Put returned. In that case, the first change rewrites the file.
func (j *Journal) read(content []byte, f Format) (bad []badLine, whole bool, err error) {
	rest, err := j.cutHeader(content, f.Header)
	if err != nil {
		return nil, false, err
	}
	whole = bytes.HasSuffix(content, []byte("\n"))
	for n := 2; len(rest) > 0; n++ {
		text, after, ended := bytes.Cut(rest, []byte("\n"))
		rest = after
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		e, err := decode(text)
		if err != nil && !ended {
			// The last byte may be a damaged line end. Otherwise the line is incomplete.
			if e, err = decode(text[:len(text)-1]); err != nil {
				continue
			}
		}
		if err == nil && e.Value != nil && f.Check != nil {
			err = f.Check(e)
		}
		if err != nil {
			bad = append(bad, badLine{n, text, err})
			continue
		}
		j.set(e, int64(len(text))+1)
	}
	return bad, whole, nil
}

// cutHeader returns the content after the first line. It returns an error unless the first line is the header h.
func (j *Journal) cutHeader(content []byte, h Header) ([]byte, error) {
	own := bytes.TrimSpace(j.header)
	if rest, ok := bytes.CutPrefix(content, own); ok {
		if rest = bytes.TrimPrefix(rest, []byte("\r")); len(rest) > 0 {
			rest = rest[1:] // the line end
		}
		return rest, nil
	}
	switch {
	case len(content) == 0:
		return nil, errors.New("it is empty, so what it had is lost; remove it to begin with a new one")
	case len(bytes.Trim(content, "\x00")) == 0:
		return nil, fmt.Errorf("it has %d bytes, all of them zero, so what it had is lost; remove it to begin with a new one", len(content))
	}
	first, _, _ := bytes.Cut(content, []byte("\n"))
	object, sealed, err := cutChecksum(bytes.TrimSpace(first))
	if !sealed {
		object = content
	}
	var found Header
	if err == nil {
		err = json.NewDecoder(bytes.NewReader(object)).Decode(&found)
	}
	if err == nil && found != h {
		return nil, h.Accept(found)
	}
	if before, _ := json.Marshal(h); !sealed && bytes.Equal(bytes.TrimSpace(first), before) {
		return nil, h.Unreleased()
	}
	return nil, fmt.Errorf("line 1 is damaged, or it is not a file of %s; name another file or, if it is one, make its first line %s", h.Format, own)
}
