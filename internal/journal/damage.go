package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"
)

const (
	// damagedSuffix is the suffix of a file for damaged lines.
	damagedSuffix = ".damaged"
	// maxDamaged is the maximum number of such files.
	maxDamaged = 9
	// maxNamed is the maximum number of lines or keys in a message, and maxKey is the maximum size of a key in bytes.
	maxNamed = 10
	maxKey   = 200
)

// A badLine is a damaged line: its number, its text and the error.
type badLine struct {
	number int
	text   []byte
	err    error
}

// repair moves damaged lines to another file, rewrites the journal without them, and logs both changes. If an error
// occurs, the journal is unchanged.
func (j *Journal) repair(ctx context.Context, bad []badLine, f Format) error {
	aside, err := setAside(j.path, bad)
	if err != nil {
		return fmt.Errorf("the damaged lines %s (%w) cannot be set aside: %w", lineNumbers(bad), bad[0].err, err)
	}
	if err := j.rewrite(&batch{}); err != nil {
		return errors.Join(fmt.Errorf("the lines other than %s, which are damaged (%w), cannot be written to a new file: %w", lineNumbers(bad), bad[0].err, err), os.Remove(aside))
	}
	slog.Default().ErrorContext(ctx, "mcpe events: damaged lines of a file were set aside", "file", j.path, "lines", lineNumbers(bad),
		"error", bad[0].err, "setAside", aside, "mayConcern", damagedKeys(bad), "effect", f.Effect,
		"repair", `repair the lines, remove their "sum" and append them to the file while no process has it open`)
	return nil
}

// setAside writes damaged lines to a new file in the directory of path and returns its name.
func setAside(path string, bad []badLine) (name string, err error) {
	var file *os.File
	for n := 1; n <= maxDamaged; n++ {
		if name = path + damagedSuffix; n > 1 {
			name += "." + strconv.Itoa(n)
		}
		if file, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("%s and %d more have lines of earlier damage; look at them and remove them", path+damagedSuffix, maxDamaged-1)
	}
	if err != nil {
		return "", err
	}
	var content []byte
	for _, b := range bad {
		content = append(append(content, b.text...), '\n')
	}
	if _, err = file.Write(content); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(name))
	}
	return name, nil
}

// lineNumbers lists the numbers of damaged lines.
func lineNumbers(bad []badLine) string {
	all := make([]string, len(bad))
	for i, b := range bad {
		all[i] = strconv.Itoa(b.number)
	}
	return joinFirst(all)
}

// keyPattern matches the kind and the key in a damaged line.
var keyPattern = regexp.MustCompile(`"kind":"(\w+)","key":("(?:[^"\\]|\\.)*")`)

// damagedKeys lists the keys in the damaged lines. It lists an unreadable key as "an unknown key".
func damagedKeys(bad []badLine) string {
	var keys []string
	named := map[string]bool{}
	for _, b := range bad {
		key := "an unknown key"
		if m := keyPattern.FindSubmatch(b.text); m != nil {
			key = string(m[1]) + " " + strings.ToValidUTF8(string(m[2][:min(len(m[2]), maxKey)]), "")
		}
		if !named[key] {
			named[key] = true
			keys = append(keys, key)
		}
	}
	return joinFirst(keys)
}

// joinFirst joins the first names and appends the number of remaining names.
func joinFirst(names []string) string {
	if more := len(names) - maxNamed; more > 0 {
		return strings.Join(names[:maxNamed], ", ") + " and " + strconv.Itoa(more) + " more"
	}
	return strings.Join(names, ", ")
}
