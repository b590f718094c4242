// Package deadletters implements the verb deadletters, which lists, retries and drops events that a consumer failed to
// handle.
package deadletters

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/file"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// Options configures an execution of the verb.
type Options struct {
	// Path is the path of a file or SQLite store.
	Path string
	// KeyFile contains the key of an encrypted SQLite store, as raw bytes or in base64.
	KeyFile string
	// Verb is list, show, retry or drop. Args are sequence numbers.
	Verb string
	Args []string
	// JSON writes one JSON document per line for each dead letter.
	JSON   bool
	Stdout io.Writer
}

// Run executes the verb. retry and drop change either all of the given dead letters or, if one does not exist, none of
// them.
func Run(ctx context.Context, o Options) error {
	do := map[string]func(context.Context, clientstore.DeadLetterStore, []clientstore.DeadLetter) error{
		"list":  o.list,
		"show":  o.show,
		"retry": o.changeEach("will be tried again", clientstore.DeadLetterStore.RetryDeadLetter),
		"drop":  o.changeEach("dropped", clientstore.DeadLetterStore.DeleteDeadLetter),
	}[o.Verb]
	if do == nil {
		return cli.Refusef("%q is not a verb of deadletters: list, show, retry or drop", o.Verb)
	}
	wanted, err := o.parseSequences()
	if err != nil {
		return err
	}
	s, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	letters, err := findLetters(ctx, s, wanted)
	if err != nil {
		return err
	}
	if err := do(ctx, s, letters); err != nil {
		return err
	}
	return s.Close()
}

// parseSequences parses the arguments. list takes none, and the other verbs take one or more.
func (o *Options) parseSequences() ([]uint64, error) {
	if o.Verb == "list" && len(o.Args) > 0 {
		return nil, cli.Refusef("list takes no arguments")
	}
	if o.Verb != "list" && len(o.Args) == 0 {
		return nil, cli.Refusef("%s needs the number of a dead letter, which list shows", o.Verb)
	}
	var wanted []uint64
	for _, a := range o.Args {
		n, err := strconv.ParseUint(a, 10, 64)
		if err != nil || n == 0 {
			return nil, cli.Refusef("%q is not the number of a dead letter", a)
		}
		wanted = append(wanted, n)
	}
	return wanted, nil
}

// A letterStore remains open until Close, which may be called more than once.
type letterStore interface {
	clientstore.DeadLetterStore
	io.Closer
}

// open opens the store. It detects the kind of store from the beginning of the file.
func (o *Options) open(ctx context.Context) (letterStore, error) {
	f, err := os.Open(o.Path)
	if err != nil {
		return nil, err
	}
	begin := make([]byte, 16)
	_, err = io.ReadFull(f, begin)
	f.Close()
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	if !bytes.HasPrefix(begin, []byte("SQLite format 3")) {
		if o.KeyFile != "" {
			return nil, cli.Refusef("%s is not an SQLite store, so --key-file does not apply", o.Path)
		}
		return file.OpenCursors(o.Path)
	}
	var options sqlite.Options
	if o.KeyFile != "" {
		if options.Key, err = os.ReadFile(o.KeyFile); err != nil {
			return nil, fmt.Errorf("--key-file: %w", err)
		}
		if n := len(options.Key); n != 16 && n != 24 && n != 32 {
			if options.Key, err = base64.StdEncoding.DecodeString(string(bytes.TrimSpace(options.Key))); err != nil {
				return nil, fmt.Errorf("--key-file: %s has %d bytes: neither a key of 16, 24 or 32 bytes nor one in base64", o.KeyFile, n)
			}
		}
	}
	return sqlite.Open(ctx, o.Path, options)
}

// findLetters returns the wanted dead letters, or all of them if wanted is empty. It returns an error if one is
// missing.
func findLetters(ctx context.Context, s clientstore.DeadLetterStore, wanted []uint64) ([]clientstore.DeadLetter, error) {
	missing := map[uint64]bool{}
	for _, n := range wanted {
		missing[n] = true
	}
	var found []clientstore.DeadLetter
	for d, err := range clientstore.DeadLetters(ctx, s) {
		if err != nil {
			return nil, err
		}
		if wanted == nil || missing[d.Sequence] {
			found = append(found, d)
			delete(missing, d.Sequence)
		}
	}
	for _, n := range wanted {
		if missing[n] {
			return nil, fmt.Errorf("dead letter %d does not exist", n)
		}
	}
	return found, nil
}

func (o *Options) list(_ context.Context, _ clientstore.DeadLetterStore, letters []clientstore.DeadLetter) error {
	if o.JSON {
		return o.lines(letters)
	}
	if len(letters) == 0 {
		_, err := fmt.Fprintln(o.Stdout, "no dead letters")
		return err
	}
	t := tabwriter.NewWriter(o.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SEQUENCE\tEVENT\tEVENT ID\tTRIES\tLAST TRY\t\tERROR")
	for _, d := range letters {
		state := ""
		if d.Due {
			state = "due"
		}
		first, _, _ := bytes.Cut([]byte(d.Error), []byte("\n"))
		fmt.Fprintf(t, "%d\t%s\t%s\t%d\t%s\t%s\t%s\n", d.Sequence, plain.Text(d.Event), plain.Text(d.EventID), d.Tries,
			d.Last.UTC().Format(time.RFC3339), state, plain.Text(string(first)))
	}
	return t.Flush()
}

func (o *Options) show(_ context.Context, _ clientstore.DeadLetterStore, letters []clientstore.DeadLetter) error {
	if o.JSON {
		return o.lines(letters)
	}
	for _, d := range letters {
		text, err := json.MarshalIndent(d, "", "  ")
		if err != nil { // the payload is not JSON
			text, err = json.MarshalIndent(quotePayload(d), "", "  ")
		}
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(o.Stdout, "%s\n", plain.JSON(text)); err != nil {
			return err
		}
	}
	return nil
}

func (o *Options) lines(letters []clientstore.DeadLetter) error {
	for _, d := range letters {
		text, err := json.Marshal(d)
		if err != nil {
			text, err = json.Marshal(quotePayload(d))
		}
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(o.Stdout, "%s\n", plain.JSON(text)); err != nil {
			return err
		}
	}
	return nil
}

// quotePayload returns d with its non-JSON payload encoded as a JSON string.
func quotePayload(d clientstore.DeadLetter) clientstore.DeadLetter {
	d.Data, _ = json.Marshal(string(d.Data))
	if !json.Valid(d.Meta) {
		d.Meta, _ = json.Marshal(string(d.Meta))
	}
	return d
}

// changeEach returns a function that changes the dead letters one by one.
func (o *Options) changeEach(done string, change func(clientstore.DeadLetterStore, context.Context, uint64) (bool, error)) func(context.Context, clientstore.DeadLetterStore, []clientstore.DeadLetter) error {
	return func(ctx context.Context, s clientstore.DeadLetterStore, letters []clientstore.DeadLetter) error {
		for _, d := range letters {
			if _, err := change(s, ctx, d.Sequence); err != nil {
				return fmt.Errorf("dead letter %d: %w", d.Sequence, err)
			}
			if _, err := fmt.Fprintf(o.Stdout, "%d %s %s: %s\n", d.Sequence, plain.Text(d.Event), plain.Text(d.EventID), done); err != nil {
				return err
			}
		}
		return nil
	}
}
