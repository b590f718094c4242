package sse

import (
	"strings"
	"testing"
)

// The three ends of lines, several data lines, comments, ids, and an event without data.
func TestEvents(t *testing.T) {
	for _, c := range []struct{ in, data, replaced, rest string }{
		{"data: {}\n\nnext", "{}", "data: 1\n\n", "next"},
		{"event: message\r\nid: 7\r\ndata:{\"a\":\r\ndata: 1}\r\n\r\n", "{\"a\":\n1}", "event: message\nid: 7\ndata: 1\n\n", ""},
		{": comment\rdata: x\r\rdata: y\r\r", "x", ": comment\ndata: 1\n\n", "data: y\r\r"},
		{"id: 1\ndata: \n\n", "", "id: 1\ndata: 1\n\n", ""},
		{"data:  two\n\n", " two", "data: 1\n\n", ""},
		{"data: a\n\ndata: b\r\n\r\n", "a", "data: 1\n\n", "data: b\r\n\r\n"},
	} {
		event, rest, ok := Cut([]byte(c.in))
		if !ok || string(rest) != c.rest {
			t.Errorf("%q: rest %q, %v", c.in, rest, ok)
		}
		if got := string(Data(event)); got != c.data {
			t.Errorf("%q: data %q", c.in, got)
		}
		if got := string(Replace(event, []byte("1"))); got != c.replaced {
			t.Errorf("%q: replaced %q", c.in, got)
		}
	}
	for _, in := range []string{"", "data: 1", "data: 1\n", "data: 1\r\n"} {
		if _, rest, ok := Cut([]byte(in)); ok || string(rest) != in {
			t.Errorf("%q: %q %v", in, rest, ok)
		}
	}
	if got := string(Message([]byte("{}"))); got != "event: message\ndata: {}\n\n" {
		t.Errorf("%q", got)
	}
}

// Data does not write over the text of the event.
func TestDataShares(t *testing.T) {
	event := []byte("data: a\ndata: b\n\n")
	if got := string(Data(event)); got != "a\nb" || string(event) != "data: a\ndata: b\n\n" {
		t.Errorf("%q %q", got, event)
	}
}

// However a text is split, the seam is where an event ends.
func TestSeam(t *testing.T) {
	for _, text := range []string{"data: 1\n\n", "id: 1\r\ndata: 1\r\n\r\n", "data: 1\r\r", ":\n\n"} {
		for at := range len(text) + 1 {
			var s Seam
			for _, part := range []string{text[:at], text[at:]} {
				s.Add([]byte(part))
			}
			if !s.Between() {
				t.Errorf("%q after %d", text, at)
			}
			if at == 0 || at == len(text) {
				continue
			}
			var half Seam
			if half.Add([]byte(text[:at])); half.Between() != strings.HasSuffix(text[:at], "\n\n") {
				t.Errorf("%q", text[:at])
			}
		}
	}
	var s Seam
	if s.Add(nil); !s.Between() {
		t.Error("an empty text")
	}
	s.Add([]byte("data: 1\n"))
	s.Add(nil)
	if s.Between() {
		t.Error("half an event")
	}
	if s.Add([]byte("\n")); !s.Between() {
		t.Error("a whole event")
	}
}
