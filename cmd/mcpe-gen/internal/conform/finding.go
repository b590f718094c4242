package conform

import (
	"bytes"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/plain"
)

// An Outcome says how a check ended.
type Outcome string

// The outcomes. Advice is what no document demands of every server and is better otherwise.
const (
	Pass   Outcome = "pass"
	Fail   Outcome = "fail"
	Skip   Outcome = "skip"
	Advice Outcome = "advice"
)

// A Finding is how one requirement was found. Its texts are bounded, in one line, without what does not
// show, and without the secrets of the run.
type Finding struct {
	// ID is the requirement's, explained in docs/requirements.md.
	ID string `json:"id"`
	// Title says what holds when it passes.
	Title   string  `json:"title"`
	Outcome Outcome `json:"outcome"`
	// Expected and Got say what is wrong; of a skip, Got says why.
	Expected string `json:"expected,omitempty"`
	Got      string `json:"got,omitempty"`
	// Request and Answer are what was sent and what came back.
	Request string `json:"request,omitempty"`
	Answer  string `json:"answer,omitempty"`
}

// maxShown bounds each text of a finding, in bytes before escaping.
const maxShown = 1500

// redacted stands for a secret of the run.
const redacted = "[redacted]"

// shown makes a text fit for a report.
func (r *run) shown(text []byte) string {
	r.hiding.Lock()
	for _, s := range r.secrets {
		text = bytes.ReplaceAll(text, s, []byte(redacted))
	}
	r.hiding.Unlock()
	begins := plain.Cut(string(text), maxShown)
	if len(begins) < len(text) {
		begins += "…"
	}
	return plain.Text(begins)
}

// hide keeps a secret out of the report, also where it stands in a JSON string.
func (r *run) hide(secret string) {
	if secret == "" {
		return
	}
	r.hiding.Lock()
	defer r.hiding.Unlock()
	r.secrets = append(r.secrets, []byte(secret))
	if quoted := encode(secret); string(quoted[1:len(quoted)-1]) != secret {
		r.secrets = append(r.secrets, quoted[1:len(quoted)-1])
	}
}
