package pattern_test

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/pattern"
)

// The verdicts of a JavaScript engine on some thousand patterns, hand-made and random, are those of
// this package: which compile with the u flag, and which texts each matches.
// testdata/verdicts.mjs records them.
func TestVerdictsOfJavaScript(t *testing.T) {
	f, err := os.Open("testdata/verdicts.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	var texts []string
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &texts) != nil {
		t.Fatal("no texts")
	}
	compiled, refused, matched := 0, 0, 0
	for lines.Scan() {
		var line []json.RawMessage
		var text string
		var verdict *string
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		if json.Unmarshal(line[0], &text) != nil || json.Unmarshal(line[1], &verdict) != nil {
			t.Fatalf("bad line %s", lines.Bytes())
		}
		p, err := pattern.Compile(text)
		if (err == nil) != (verdict != nil) {
			t.Errorf("%s: compiles %v, wanted %v: %v", text, err == nil, verdict != nil, err)
			continue
		}
		if err != nil {
			refused++
			continue
		}
		compiled++
		own := [][2]any{}
		if len(line) == 3 {
			if err := json.Unmarshal(line[2], &own); err != nil {
				t.Fatal(err)
			}
		} else {
			for i, s := range texts {
				own = append(own, [2]any{s, float64((*verdict)[i] - '0')})
			}
		}
		var wrong []string
		for _, o := range own {
			matched++
			if p.MatchString(o[0].(string)) != (o[1] == float64(1)) {
				wrong = append(wrong, o[0].(string))
			}
		}
		if len(wrong) > 0 {
			t.Errorf("%s: judged otherwise: %q", text, strings.Join(wrong, " | "))
		}
	}
	t.Logf("%d patterns compile, %d do not, %d texts matched", compiled, refused, matched)
}
