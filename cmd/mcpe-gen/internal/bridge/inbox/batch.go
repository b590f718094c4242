package inbox

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// An Event is one event as the agent sees it.
type Event struct {
	ID        string    `json:"eventId"`
	Timestamp time.Time `json:"timestamp"`
	// Data is the payload. One that is too large is cut: Beginning is its first part as text, and Bytes its size.
	Data      json.RawMessage `json:"data,omitempty"`
	Beginning string          `json:"dataBeginning,omitempty"`
	Bytes     int             `json:"dataBytes,omitempty"`
}

func (e *Event) size() int { return len(e.Data) + len(e.Beginning) + len(e.ID) + 64 }

// A Batch is what is told of together: an event, or a burst of them.
type Batch struct {
	Sequence     uint64 `json:"-"`
	Subscription string `json:"subscription"`
	Server       string `json:"server"`
	Event        string `json:"event"`
	// Count is how many events it stands for, of which the first and the last happened at First and Last. Events are
	// all of them, or the latest alone.
	Count       int       `json:"count"`
	First, Last time.Time `json:",omitzero"`
	Events      []Event   `json:"events"`
	// Received is when it was added.
	Received time.Time `json:"received"`
	// IDs are those of all events, hashed.
	IDs []string `json:"ids"`
}

// ID is how the batch is named to others.
func (b *Batch) ID() string { return "b" + strconv.FormatUint(b.Sequence, 10) }

// ParseID is the sequence of an ID; false when s is none.
func ParseID(s string) (uint64, bool) {
	digits, ok := strings.CutPrefix(s, "b")
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, ok && err == nil && n > 0
}

func (b *Batch) size() int {
	n := 0
	for i := range b.Events {
		n += b.Events[i].size()
	}
	return n
}

// A Mark is what has become of a batch that is unread.
type Mark struct {
	// Announced tells that a notification of it was written.
	Announced bool `json:"announced,omitempty"`
	// Commanded tells that the command was run for it and will not be run again; Failure is why it has failed, empty
	// when it has not.
	Commanded bool   `json:"commanded,omitempty"`
	Failure   string `json:"failure,omitempty"`
}
