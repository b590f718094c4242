package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// A ListPage is a result of events/list for a client (LIST-1).
type ListPage struct {
	// Entries holds the raw descriptors.
	Entries []json.RawMessage
	// NextCursor is the cursor of the next page, or "" on the last page.
	NextCursor string
}

// DecodeListPage decodes a result of events/list without its descriptors, so a malformed descriptor does not affect the
// others. [DecodeDescriptor] decodes a descriptor.
func DecodeListPage(raw json.RawMessage) (ListPage, error) {
	m, err := DecodeMembers(raw)
	if err != nil {
		return ListPage{}, err
	}
	if _, ok := m["events"]; !ok {
		return ListPage{}, errors.New(`no member "events"`)
	}
	var page ListPage
	if page.Entries, err = m.Elements("events"); err != nil {
		return ListPage{}, err
	}
	return page, m.Read("nextCursor", &page.NextCursor)
}

// DecodeDescriptor decodes one entry of events/list. An absent or null schema becomes {} (LIST-2). The error names the
// invalid member. On an error, the descriptor has at most the name.
func DecodeDescriptor(raw json.RawMessage) (Descriptor, error) {
	members, err := DecodeMembers(raw)
	if err != nil {
		return Descriptor{}, err
	}
	var d Descriptor
	if err := members.Read("name", &d.Name); err != nil || d.Name == "" {
		return Descriptor{}, errors.New("/name is not a string with content")
	}
	if n := utf8.RuneCountInString(d.Name); n > MaxEventName {
		return Descriptor{}, fmt.Errorf("/name has %d characters, more than %d", n, MaxEventName)
	}
	named := Descriptor{Name: d.Name}
	for _, m := range []struct {
		name string
		into any
		want string
	}{
		{"description", &d.Description, "a string"},
		{"delivery", &d.Delivery, "an array of strings"},
		{"_meta", &d.Meta, "an object"},
	} {
		if members.Read(m.name, m.into) != nil {
			return named, fmt.Errorf("/%s is not %s", m.name, m.want)
		}
	}
	for _, m := range []struct {
		name string
		into *json.RawMessage
	}{{"inputSchema", &d.InputSchema}, {"payloadSchema", &d.PayloadSchema}} {
		schema, ok := members[m.name]
		switch {
		case !ok || string(schema) == "null":
			*m.into = json.RawMessage(`{}`)
		case schema[0] == '{' || schema[0] == 't' || schema[0] == 'f':
			*m.into = bytes.Clone(schema)
		default:
			return named, fmt.Errorf("/%s is not a schema: an object, true or false", m.name)
		}
	}
	return d, nil
}
