package conversation

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
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/atomicfile"
	"github.com/mcpe-gen/mcpe-gen/internal/filelock"
	"github.com/mcpe-gen/mcpe-gen/internal/journal"
)

// A Consent describes the messages that the user allows a server to receive. See CONV-5.
type Consent struct {
	// Server is the client's name for the server, not a name that the server provides.
	Server string `json:"server"`
	// History permits sending recentHistory; otherwise the server receives only the message.
	History bool `json:"history"`
	// AssistantResponses allows the model's responses. See CONV-8.
	AssistantResponses bool `json:"assistantResponses"`
	// GrantedAt is the time when the user gave consent.
	GrantedAt time.Time `json:"grantedAt"`
}

// Consents stores the user's consents. Implementations must be safe for concurrent use. See CONV-5.
type Consents interface {
	// Consent returns the consent for the server and reports whether there is one.
	Consent(ctx context.Context, server string) (Consent, bool, error)
	// Grant replaces the consent for c.Server.
	Grant(ctx context.Context, c Consent) error
	// List returns all consents by server name.
	List(ctx context.Context) ([]Consent, error)
	// Revoke removes the consent for the server. It does nothing if the consent does not exist.
	Revoke(ctx context.Context, server string) error
}

// FileConsents stores consents in a JSON file, which it replaces atomically. Only one process at a time can open the
// file.
type FileConsents struct {
	path string         // "" keeps them in memory only
	lock *filelock.Lock // nil in memory

	mu     sync.Mutex
	all    map[string]Consent
	closed bool
}

var consentsHeader = journal.Header{Format: "mcpe-gen consents", Version: 1}

type consentsFile struct {
	journal.Header
	Consents map[string]Consent `json:"consents"`
}

// The last member in the file is the checksum of the preceding text.
const (
	sumMember = ",\n  \"sum\": \""
	sumEnd    = "\"\n}"
)

// NewConsents returns an in-memory store, for tests and for programs that ask the user for consent at each start.
func NewConsents() *FileConsents { return &FileConsents{all: map[string]Consent{}} }

// OpenConsents opens the consents file at path. The file need not exist, but its directory must. If the checksum shows
// that the file is damaged, OpenConsents returns an error with the path, so damage can neither grant nor revoke a
// consent. After editing the file manually, set its last member, "sum", to "". If another process has the file open,
// OpenConsents waits up to 10 s and then returns an error that identifies both. Two processes with the file open would
// restore consents that the other has revoked. Call Close after use.
func OpenConsents(path string) (_ *FileConsents, err error) {
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("opening consents file %s: %w", path, err)
		}
	}()
	f := &FileConsents{all: map[string]Consent{}}
	if f.path, err = filelock.Resolve(path); err != nil {
		return nil, err
	}
	if f.lock, err = filelock.Acquire(context.Background(), f.path, filelock.DefaultWait); err != nil {
		return nil, err
	}
	if err := f.read(); err != nil {
		return nil, errors.Join(err, f.lock.Release())
	}
	return f, nil
}

func (f *FileConsents) read() error {
	data, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	c, err := decodeConsents(data)
	if err != nil {
		return err
	}
	for name, consent := range c.Consents {
		consent.Server = name
		f.all[name] = consent
	}
	return nil
}

// encodeConsents encodes the content of the file.
func encodeConsents(c consentsFile) ([]byte, error) {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, err
	}
	text = bytes.TrimSuffix(text, []byte("\n}"))
	return append(text, sumMember+journal.Checksum(text)+sumEnd+"\n"...), nil
}

func decodeConsents(data []byte) (consentsFile, error) {
	var c consentsFile
	at := bytes.LastIndex(data, []byte(sumMember))
	if at >= 0 {
		end := string(bytes.TrimSpace(data[at+len(sumMember):]))
		if end != sumEnd && end != journal.Checksum(data[:at])+sumEnd {
			return c, errDamagedConsents
		}
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("%w: %w", errDamagedConsents, err)
	}
	if at < 0 && c.Header == consentsHeader {
		return c, consentsHeader.Unreleased()
	}
	return c, consentsHeader.Accept(c.Header)
}

var errDamagedConsents = errors.New(`it is damaged or was edited; remove it and ask the user for each consent, or set its "sum" to "" if all of it is right`)

// Close releases the file. Later calls to Grant and Revoke return an error.
func (f *FileConsents) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lock == nil || f.closed {
		return nil
	}
	f.closed = true
	return f.lock.Release()
}

// Consent implements [Consents].
func (f *FileConsents) Consent(_ context.Context, server string) (Consent, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, ok := f.all[server]
	return c, ok, nil
}

// Grant implements [Consents].
func (f *FileConsents) Grant(_ context.Context, c Consent) error {
	if c.Server == "" {
		return errors.New("grant consent: the server has no name")
	}
	if c.GrantedAt.IsZero() {
		c.GrantedAt = time.Now()
	}
	return f.update(func(all map[string]Consent) { all[c.Server] = c })
}

// List implements [Consents].
func (f *FileConsents) List(context.Context) ([]Consent, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []Consent
	for _, name := range slices.Sorted(maps.Keys(f.all)) {
		list = append(list, f.all[name])
	}
	return list, nil
}

// Revoke implements [Consents].
func (f *FileConsents) Revoke(_ context.Context, server string) error {
	return f.update(func(all map[string]Consent) { delete(all, server) })
}

// update applies a function to a copy of the consents. Once written, the copy replaces the consents.
func (f *FileConsents) update(apply func(map[string]Consent)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errors.New("write consents: the file is closed")
	}
	next := maps.Clone(f.all)
	apply(next)
	if f.path != "" {
		data, err := encodeConsents(consentsFile{consentsHeader, next})
		if err != nil {
			return err
		}
		if err := atomicfile.Write(f.path, data); err != nil {
			return fmt.Errorf("write consents: %w", err)
		}
	}
	f.all = next
	return nil
}
