package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/atomicfile"
	"github.com/mcpe-gen/mcpe-gen/internal/filelock"
	"github.com/mcpe-gen/mcpe-gen/internal/journal"
)

// A Consent is what the user lets one server see. See CONV-5.
type Consent struct {
	// Server is the name that the client knows the server by; never one that the server gives.
	Server string `json:"server"`
	// History covers recentHistory too; without it a server sees the message alone.
	History bool `json:"history"`
	// AssistantResponses covers the model's responses. See CONV-8.
	AssistantResponses bool `json:"assistantResponses"`
	// GrantedAt is when the user gave it.
	GrantedAt time.Time `json:"grantedAt"`
}

// Consents keeps what the user has approved. Implementations are safe for concurrent use. See
// CONV-5.
type Consents interface {
	// Consent returns what the server may see and whether it may see anything.
	Consent(ctx context.Context, server string) (Consent, bool, error)
	// Grant replaces the consent for c.Server.
	Grant(ctx context.Context, c Consent) error
	// List returns all consents by server name.
	List(ctx context.Context) ([]Consent, error)
	// Revoke takes the consent for the server back; without one it does nothing.
	Revoke(ctx context.Context, server string) error
}

// FileConsents keeps consents in one JSON file that is replaced as a whole. One process at a time
// has it open.
type FileConsents struct {
	path string         // "" keeps them in memory only
	lock *filelock.Lock // nil then

	mu     sync.Mutex
	all    map[string]Consent
	closed bool
}

var consentsHeader = journal.Header{Format: "mcpe-gen consents", Version: 1}

type consentsFile struct {
	journal.Header
	Consents map[string]Consent `json:"consents"`
}

// NewConsents keeps consents in memory, for tests and for programs that ask at every start.
func NewConsents() *FileConsents { return &FileConsents{all: map[string]Consent{}} }

// OpenConsents reads the file at path, which need not exist yet; its directory must. A file that cannot be decoded is
// an error that names it: a lost consent is never taken for a given one, nor the reverse. It waits up to 10 s for
// another process to close the file; then the error names both, since each would bring back what the other revokes.
// Close it after use.
func OpenConsents(path string) (_ *FileConsents, err error) {
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
	var c consentsFile
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("corrupted: %w", err)
	}
	if err := consentsHeader.Accept(c.Header); err != nil {
		return err
	}
	for name, consent := range c.Consents {
		consent.Server = name
		f.all[name] = consent
	}
	return nil
}

// Close gives the file up. What is granted or revoked later fails.
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
	return f.change(func(all map[string]Consent) { all[c.Server] = c })
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
	return f.change(func(all map[string]Consent) { delete(all, server) })
}

// change applies f to a copy that becomes the truth once it is written.
func (f *FileConsents) change(apply func(map[string]Consent)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errors.New("write consents: the file is closed")
	}
	next := maps.Clone(f.all)
	apply(next)
	if f.path != "" {
		data, err := json.MarshalIndent(consentsFile{consentsHeader, next}, "", "  ")
		if err != nil {
			return err
		}
		if err := atomicfile.Write(f.path, append(data, '\n')); err != nil {
			return fmt.Errorf("write consents: %w", err)
		}
	}
	f.all = next
	return nil
}
