package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// A ListPage is a result of events/list as a client reads it (LIST-1).
type ListPage struct {
	// Entries are the descriptors, each as it came.
	Entries []json.RawMessage
	// NextCursor is that of the next page, "" for none.
	NextCursor string
}

// DecodeListPage reads a result of events/list without its descriptors, so that one of them that is
// malformed does not hide the others; see [DecodeDescriptor].
func DecodeListPage(raw json.RawMessage) (ListPage, error) {
	var p struct {
		Events     *[]json.RawMessage `json:"events"`
		NextCursor string             `json:"nextCursor"`
	}
	// A null is an empty list to a server in Go; none at all is no answer to events/list.
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return ListPage{}, err
	}
	if _, ok := members["events"]; !ok {
		return ListPage{}, errors.New(`no member "events"`)
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return ListPage{}, err
	}
	page := ListPage{NextCursor: p.NextCursor}
	if p.Events != nil {
		page.Entries = *p.Events
	}
	return page, nil
}

// DecodeDescriptor reads one entry of events/list. An absent or null schema is the empty one, {}
// (LIST-2). The error names the member that is wrong; the descriptor then has the name at most.
func DecodeDescriptor(raw json.RawMessage) (Descriptor, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return Descriptor{}, errors.New("not an object")
	}
	var d Descriptor
	if err := json.Unmarshal(members["name"], &d.Name); err != nil || d.Name == "" {
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
		if value, ok := members[m.name]; ok && json.Unmarshal(value, m.into) != nil {
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
