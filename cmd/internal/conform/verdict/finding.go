// Package verdict has the findings of the judges of `mcpe-conform`, and the report of a run as text, JSON and JUnit. It
// judges nothing itself. A [Redactor] keeps the secrets of a run out of the report.
package verdict

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

// An Outcome is the result of a check.
type Outcome string

// The outcomes of a check. Advice is a recommendation that no specification requires. Unjudged is a check that the run
// could not finish; a check that does not apply is a Skip.
const (
	Pass     Outcome = "pass"
	Fail     Outcome = "fail"
	Skip     Outcome = "skip"
	Advice   Outcome = "advice"
	Unjudged Outcome = "unjudged"
)

// A Finding is the result of one check. Its texts are bounded and printable, have one line, and contain no secrets of
// the run: they come from [Redactor.Shown].
type Finding struct {
	// ID is the requirement's ID in docs/requirements.md.
	ID string `json:"id"`
	// Title says what holds if the check passes.
	Title   string  `json:"title"`
	Outcome Outcome `json:"outcome"`
	// Expected and Got describe the violation. For a skip and an unjudged check, Got is the reason.
	Expected string `json:"expected,omitempty"`
	Got      string `json:"got,omitempty"`
	// Request is the message that was sent, and Answer is its answer.
	Request string `json:"request,omitempty"`
	Answer  string `json:"answer,omitempty"`
}

// MaxShown bounds each text of a finding, in bytes before escaping.
const MaxShown = 1500

// Redacted replaces a secret of the run.
const Redacted = "[redacted]"

// A Redactor prepares texts for a report. The zero value knows no secrets. It is safe for concurrent use.
type Redactor struct {
	mu      sync.Mutex
	secrets [][]byte
}

// Hide keeps a secret out of the report, even inside a JSON string. It ignores "".
func (r *Redactor) Hide(secret string) {
	if secret == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets = append(r.secrets, []byte(secret))
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(secret) // encoding a string cannot fail
	if quoted := bytes.TrimSpace(b.Bytes()); string(quoted[1:len(quoted)-1]) != secret {
		r.secrets = append(r.secrets, quoted[1:len(quoted)-1])
	}
}

// Shown returns the text for a report: at most [MaxShown] bytes, in one line, without secrets.
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

// minPart is the minimum size in bytes of a secret that cannot appear by chance in random data, such as a signature.
const minPart = 16

// Holds reports whether the text contains a secret. A secret of less than 16 bytes, such as a token for a trial, counts
// only as a whole word.
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

// endsInWord reports whether the text after it continues its last word. The n of
//
//	in a JSON string does not count.
func endsInWord(text []byte) bool {
	n := len(text)
	return n > 0 && inWord(text[n-1]) && (n == 1 || text[n-2] != '\\')
}

func inWord(b byte) bool {
	return '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || b >= 0x80
}
