// Package verdict defines the findings of the checks of `mcpe-conform`, and the report of a run as text, JSON and
// JUnit. It judges nothing itself. A [Redactor] removes the secrets of a run from the report.
package verdict

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

// An Outcome is the result of a check.
type Outcome string

// The outcomes of a check. Advice is a recommendation that no specification requires. Unjudged is a check that the run
// could not finish. A check that does not apply is a Skip. Accepted is a failure of a check in [Report.Accept].
const (
	Pass     Outcome = "pass"
	Fail     Outcome = "fail"
	Skip     Outcome = "skip"
	Advice   Outcome = "advice"
	Unjudged Outcome = "unjudged"
	Accepted Outcome = "accepted"
)

// A Finding is the result of one check. Its texts come from [Redactor.Shown]. They have one line, are printable and
// limited in length, and contain no secrets of the run.
type Finding struct {
	// Name, ID and Title are those of the check.
	Name    string  `json:"name"`
	ID      string  `json:"id"`
	Title   string  `json:"title"`
	Outcome Outcome `json:"outcome"`
	// Expected and Got describe the violation. For a skipped or unjudged check, Got is the reason.
	Expected string `json:"expected,omitempty"`
	Got      string `json:"got,omitempty"`
	// Request is the message that was sent. Answer is the response to it.
	Request string `json:"request,omitempty"`
	Answer  string `json:"answer,omitempty"`
}

// MaxShown is the maximum size of each text of a finding, in bytes before escaping.
const MaxShown = 1500

// Redacted replaces the secrets of the run.
const Redacted = "[redacted]"

// A Redactor prepares texts for a report. The zero value has no secrets to redact. It is safe for concurrent use.
type Redactor struct {
	mu      sync.Mutex
	secrets [][]byte
}

// Hide redacts a secret in the report, even inside a JSON string. It ignores "".
func (r *Redactor) Hide(secret string) {
	if secret == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets = append(r.secrets, []byte(secret))
	if quoted := Encode(secret); string(quoted[1:len(quoted)-1]) != secret {
		r.secrets = append(r.secrets, quoted[1:len(quoted)-1])
	}
}

// Encode marshals v without the escapes that are specific to Go's encoder, as in the specification's examples. It panics
// if v has no JSON: the judges encode only their own values and text that was parsed as JSON.
func Encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("conform: a message that is not JSON: %v", err))
	}
	return bytes.TrimSpace(b.Bytes())
}

// Shown returns at most [MaxShown] bytes of the text, on one line and without secrets, for a report.
func (r *Redactor) Shown(text []byte) string {
	r.mu.Lock()
	for _, s := range r.secrets {
		text = bytes.ReplaceAll(text, s, []byte(Redacted))
	}
	r.mu.Unlock()
	begins := plain.Cut(string(text), MaxShown)
	if len(begins) < len(text) {
		begins += "…"
	}
	return plain.Text(begins)
}

// minPart is the minimum length in bytes at which a secret does not occur by chance in random data, such as a
// signature.
const minPart = 16

// Holds reports whether the text contains a secret. A secret of less than 16 bytes, such as a test token, must match a
// whole word.
func (r *Redactor) Holds(text []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.secrets {
		if len(s) >= minPart && bytes.Contains(text, s) || len(s) < minPart && hasWord(text, s) {
			return true
		}
	}
	return false
}

func hasWord(text, word []byte) bool {
	for from := 0; ; from++ {
		i := bytes.Index(text[from:], word)
		if i < 0 {
			return false
		}
		from += i
		if before, after := text[:from], text[from+len(word):]; !endsInWord(before) && (len(after) == 0 || !inWord(after[0])) {
			return true
		}
	}
}

// endsInWord reports whether text ends with a word character, in which case the following text could continue the word.
// The n of
//
//	in a JSON string does not count.
func endsInWord(text []byte) bool {
	n := len(text)
	return n > 0 && inWord(text[n-1]) && (n == 1 || text[n-2] != '\\')
}

func inWord(b byte) bool {
	return '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || b >= 0x80
}
