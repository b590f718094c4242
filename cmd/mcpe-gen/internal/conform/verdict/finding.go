// Package verdict is what the judges of `mcpe-gen conform` say: findings, and the report of a run, as text, JSON and
// JUnit. It judges nothing itself. A [Redactor] keeps the secrets of a run out of it.
package verdict

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

// An Outcome says how a check ended.
type Outcome string

// The outcomes. Advice is what no document demands of everybody and is better otherwise. Unjudged is a check that the run
// could not finish; a check that does not apply is a Skip.
const (
	Pass     Outcome = "pass"
	Fail     Outcome = "fail"
	Skip     Outcome = "skip"
	Advice   Outcome = "advice"
	Unjudged Outcome = "unjudged"
)

// A Finding is how one requirement was found. Its texts are bounded, in one line, without what does not
// show, and without the secrets of the run: they come from [Redactor.Shown].
type Finding struct {
	// ID is the requirement's, explained in docs/requirements.md.
	ID string `json:"id"`
	// Title says what holds when it passes.
	Title   string  `json:"title"`
	Outcome Outcome `json:"outcome"`
	// Expected and Got say what is wrong; of a skip and of an unjudged check, Got says why.
	Expected string `json:"expected,omitempty"`
	Got      string `json:"got,omitempty"`
	// Request and Answer are what was sent and what came back.
	Request string `json:"request,omitempty"`
	Answer  string `json:"answer,omitempty"`
}

// MaxShown bounds each text of a finding, in bytes before escaping.
const MaxShown = 1500

// Redacted stands for a secret of the run.
const Redacted = "[redacted]"

// A Redactor makes texts fit for a report. The zero value knows no secrets. It is safe for concurrent use.
type Redactor struct {
	mu      sync.Mutex
	secrets [][]byte
}

// Hide keeps a secret out of the report, also where it stands in a JSON string; "" is none.
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
	_ = e.Encode(secret) // a string can be encoded
	if quoted := bytes.TrimSpace(b.Bytes()); string(quoted[1:len(quoted)-1]) != secret {
		r.secrets = append(r.secrets, quoted[1:len(quoted)-1])
	}
}

// Shown is the text as a report may have it: bounded by [MaxShown], in one line, without secrets.
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

// minPart is the least size in bytes at which a secret does not stand by chance in something random, such as a signature.
const minPart = 16

// Holds reports whether a secret stands in the text. One of less than 16 bytes, as a token for a trial may have, counts only
// where it is no part of a longer word.
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

// endsInWord reports whether what comes after the text goes on with its last word. The n of \n in a JSON string is of none.
func endsInWord(text []byte) bool {
	n := len(text)
	return n > 0 && inWord(text[n-1]) && (n == 1 || text[n-2] != '\\')
}

func inWord(b byte) bool {
	return '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || b >= 0x80
}
