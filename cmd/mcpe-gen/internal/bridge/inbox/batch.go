package inbox

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An Event is a single event in the format for the agent.
type Event struct {
	ID        string    `json:"eventId"`
	Timestamp time.Time `json:"timestamp"`
	// Data is the payload. If the data is too large, Beginning contains the start of it as text, and Bytes is its size.
	Data      json.RawMessage `json:"data,omitempty"`
	Beginning string          `json:"dataBeginning,omitempty"`
	Bytes     int             `json:"dataBytes,omitempty"`
}

func (e *Event) size() int { return len(e.Data) + len(e.Beginning) + len(e.ID) + 64 }

// A Batch is a single event or a burst of events that are delivered together.
type Batch struct {
	Sequence     uint64 `json:"-"`
	Subscription string `json:"subscription"`
	Server       string `json:"server"`
	Event        string `json:"event"`
	// Count is the number of events. First and Last are the times of the first and the last one. Events contains all of
	// the events or only the latest.
	Count       int       `json:"count"`
	First, Last time.Time `json:",omitzero"`
	Events      []Event   `json:"events"`
	// Received is the time at which the batch was added.
	Received time.Time `json:"received"`
	// IDs are the hashed eventIds of all events.
	IDs []string `json:"ids"`
}

// ID returns the public identifier of the batch.
func (b *Batch) ID() string { return "b" + strconv.FormatUint(b.Sequence, 10) }

// ParseID returns the sequence number of an ID. It returns false if s is invalid.
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
	// Announced reports whether a notification about the batch was written to the reader. In a mark that is not for a
	// specific reader, it reports whether any reader was notified.
	Announced bool `json:"announced,omitempty"`
	// Commanded reports whether the command has finished its last attempt for the batch. Failure is the error of that
	// attempt, or "" if it succeeded.
	Commanded bool   `json:"commanded,omitempty"`
	Failure   string `json:"failure,omitempty"`
}

// A mark is the stored form of a Mark, including the names of readers.
type mark struct {
	Mark
	// Read reports whether any reader has read the batch. Readers are the open readers that have read the batch.
	// AnnouncedTo are the open readers that were notified of it.
	Read        bool     `json:"read,omitempty"`
	Readers     []string `json:"readers,omitempty"`
	AnnouncedTo []string `json:"announcedTo,omitempty"`
}

// isEmpty reports whether the mark contains no information.
func (m *mark) isEmpty() bool { return m.Mark == Mark{} && !m.Read }

// withReader returns a copy of the mark that records that a reader has read the batch.
func (m mark) withReader(reader string) mark {
	m.Read, m.Readers = true, append(slices.Clone(m.Readers), reader)
	return m
}

// withAnnouncedTo returns a copy of the mark that records that a reader was notified of the batch.
func (m mark) withAnnouncedTo(reader string) mark {
	m.Announced, m.AnnouncedTo = true, append(slices.Clone(m.AnnouncedTo), reader)
	return m
}
