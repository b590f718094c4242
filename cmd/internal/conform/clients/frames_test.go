package clients

import (
	"bufio"
	"io"
	"strings"
	"unicode/utf8"
)

// frames reads the data of server-sent events, as the HTML standard says, but for the fault of its client.
type frames struct {
	w     *wrongClient
	in    *bufio.Reader
	begun bool
}

func (w *wrongClient) newFrames(body io.Reader) *frames {
	if w.is("takes-parts-for-messages") {
		body = ender{body}
	}
	if w.is("decodes-parts") {
		body = decoder{body}
	}
	return &frames{w: w, in: bufio.NewReader(body)}
}

// A decoder replaces in each part that it reads what is not UTF-8.
type decoder struct{ io.Reader }

func (d decoder) Read(b []byte) (int, error) {
	part := make([]byte, len(b)/utf8.UTFMax)
	n, err := d.Reader.Read(part)
	return copy(b, strings.ToValidUTF8(string(part[:n]), "\ufffd")), err
}

// An ender ends a message after each part that it reads.
type ender struct{ io.Reader }

func (e ender) Read(b []byte) (int, error) {
	n, err := e.Reader.Read(b[:len(b)-2])
	return n + copy(b[n:], "\n\n"), err
}

// next returns the data of the next event.
func (f *frames) next() (data string, ok bool) {
	var lines []string
	kind, named := "message", false
	for {
		line, err := f.in.ReadString('\n')
		if err != nil {
			return "", false
		}
		if !f.begun && !f.w.is("keeps-byte-order-mark") {
			line = strings.TrimPrefix(line, "\ufeff")
		}
		f.begun = true
		line = strings.TrimSuffix(line, "\n")
		if !f.w.is("splits-lf-alone") {
			line = strings.TrimSuffix(line, "\r")
		}
		field, value, colon := strings.Cut(line, ":")
		switch after, blank := strings.CutPrefix(value, " "); {
		case blank:
			value = after
		case f.w.is("requires-space") && colon && field != "":
			continue
		}
		switch {
		case line == "" && len(lines) > 0 && (named || !f.w.is("requires-event-field")) && kind == "message":
			return strings.Join(lines, "\n"), true
		case line == "":
			lines, kind, named = nil, "message", false
		case field == "" && f.w.is("comments-end-message"):
			lines = nil
		case field == "event":
			kind, named = value, true
		case field == "data" && f.w.is("reads-one-data-line"):
			lines = []string{value}
		case field == "data":
			lines = append(lines, value)
		case (field == "id" || field == "retry") && f.w.is("knows-no-id-retry"):
			return "", false
		}
	}
}
