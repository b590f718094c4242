package inbox

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An Event is one event in the agent's form.
type Event struct {
	ID        string    `json:"eventId"`
	Timestamp time.Time `json:"timestamp"`
	// Data is the payload. If it is too large, Beginning has its first part as text, and Bytes is its size.
	Data      json.RawMessage `json:"data,omitempty"`
	Beginning string          `json:"dataBeginning,omitempty"`
	Bytes     int             `json:"dataBytes,omitempty"`
}

func (e *Event) size() int { return len(e.Data) + len(e.Beginning) + len(e.ID) + 64 }

// A Batch is an event, or a burst of events that are delivered together.
type Batch struct {
	Sequence     uint64 `json:"-"`
	Subscription string `json:"subscription"`
	Server       string `json:"server"`
	Event        string `json:"event"`
	// Count is the number of its events; the first and the last happened at First and Last. Events has all of them, or
	// only the latest.
	Count       int       `json:"count"`
	First, Last time.Time `json:",omitzero"`
	Events      []Event   `json:"events"`
	// Received is the time at which it was added.
	Received time.Time `json:"received"`
	// IDs are the hashed ids of all events.
	IDs []string `json:"ids"`
}

// ID returns the public name of the batch.
func (b *Batch) ID() string { return "b" + strconv.FormatUint(b.Sequence, 10) }

// ParseID returns the sequence of an ID, or false if s is invalid.
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

// A Mark is the state of an unread batch.
type Mark struct {
	// Announced is set once a notification of the batch was written: to the reader, or to any reader if none is named.
	Announced bool `json:"announced,omitempty"`
	// Commanded is set if the command was run for the batch for the last time. Failure is its error, or empty if
	// it succeeded.
	Commanded bool   `json:"commanded,omitempty"`
	Failure   string `json:"failure,omitempty"`
}

// A mark is the stored form of a Mark, with the names of readers.
type mark struct {
	Mark
	// Read is set once any reader has read the batch. Readers are the open readers that have read it, and AnnouncedTo
	// are the open readers that have received a notification.
	Read        bool     `json:"read,omitempty"`
	Readers     []string `json:"readers,omitempty"`
	AnnouncedTo []string `json:"announcedTo,omitempty"`
}

// empty reports whether the mark has no information.
func (m *mark) empty() bool { return m.Mark == Mark{} && !m.Read }

// readBy returns the mark after a reader has read the batch.
func (m mark) readBy(reader string) mark {
	m.Read, m.Readers = true, append(slices.Clone(m.Readers), reader)
	return m
}

// announcedTo returns the mark after a reader has received a notification of the batch.
func (m mark) announcedTo(reader string) mark {
	m.Announced, m.AnnouncedTo = true, append(slices.Clone(m.AnnouncedTo), reader)
	return m
}
