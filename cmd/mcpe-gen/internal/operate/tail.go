package operate

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

// maxLine is the maximum length of a line of a live tail in bytes.
const maxLine = 8 << 20

// tail prints occurrences as they arrive until ctx is done or the server ends the tail.
func (o *Options) tail(ctx context.Context, v *Verb) error {
	resp, err := o.send(ctx, http.MethodGet, o.target(v), o.query(v), nil, 0)
	if err != nil {
		return unlessEnded(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		_, err := read(resp)
		return err
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxLine)
	name := ""
	for lines.Scan() {
		field, value, _ := bytes.Cut(lines.Bytes(), []byte(": "))
		switch string(field) {
		case "event":
			name = string(value)
		case "data":
			if err := o.passed(name, value); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return unlessEnded(ctx, err)
	}
	return unlessEnded(ctx, errors.New("the server closed the connection"))
}

func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// passed prints an occurrence.
func (o *Options) passed(name string, data []byte) error {
	var v struct {
		Timestamp, Event, EventID, Detail string
		Position, Bytes, Count            int64
		Targeted                          bool
		Data                              json.RawMessage
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return fmt.Errorf("the server sent an event that is not a JSON object: %w", err)
	}
	var err error
	switch {
	case name == "end":
		return errors.New("the server ended the tail: " + plain.Text(v.Detail))
	case o.JSON && name == "skipped":
		_, err = fmt.Fprintf(o.Stdout, "{\"skipped\":%d}\n", v.Count)
	case o.JSON && name == "occurrence":
		_, err = fmt.Fprintln(o.Stdout, string(data))
	case name == "skipped":
		_, err = fmt.Fprintf(o.Stdout, "%d events were skipped, because they came too fast\n", v.Count)
	case name == "occurrence":
		words := []string{timeText(v.Timestamp), plain.Text(v.Event), plain.Text(v.EventID), fmt.Sprintf("#%d", v.Position), fmt.Sprintf("%d bytes", v.Bytes)}
		if v.Targeted {
			words = append(words, "targeted")
		}
		if len(v.Data) > 0 {
			words = append(words, plain.Text(string(v.Data)))
		}
		_, err = fmt.Fprintln(o.Stdout, strings.Join(words, "  "))
	}
	return err
}
