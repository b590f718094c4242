package lint_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/lint"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// A comment counts on its line, and alone on its line for the next one that is no comment.
func TestExceptions(t *testing.T) {
	const head = "version: 1\nevents:\n"
	const tail = "    description: Fires.\n    inputSchema: {type: object, additionalProperties: false}\n    payloadSchema: {type: object}\n"
	for _, c := range []struct{ name, event, want string }{
		{"on the line", "  - name: Bad # mcpe:ignore EVENT_NAME_STYLE kept for old clients\n", ""},
		{"on the line above", "  # mcpe:ignore EVENT_NAME_STYLE kept for old clients\n  - name: Bad\n", ""},
		{"above another comment", "  # mcpe:ignore EVENT_NAME_STYLE kept\n  # for old clients\n  - name: Bad\n", ""},
		{"two rules", "  # mcpe:ignore EVENT_NAME_PAST kept\n  # mcpe:ignore EVENT_NAME_STYLE kept\n  - name: Bad\n", ""},
		{"without a reason", "  - name: Bad # mcpe:ignore EVENT_NAME_STYLE\n",
			"events.yaml:3:11: error EVENT_NAME_STYLE: event name \"Bad\" is not lower-case words joined by '_' and '.' (as in bad)\n" +
				"events.yaml:3:15: error MCPE550: the comment gives no reason to ignore EVENT_NAME_STYLE (write # mcpe:ignore EVENT_NAME_STYLE and why)\n"},
		{"without a rule", "  - name: good # mcpe:ignore\n",
			"events.yaml:3:16: error MCPE550: the comment names no rule (write # mcpe:ignore RULE reason)\n"},
		{"unknown rule", "  - name: good # mcpe:ignore EVENT_NAME_STILE because\n",
			"events.yaml:3:16: warning MCPE551: unknown rule \"EVENT_NAME_STILE\" (did you mean EVENT_NAME_STYLE?)\n"},
		{"unused", "  - name: good # mcpe:ignore EVENT_NAME_STYLE because\n",
			"events.yaml:3:16: warning MCPE552: nothing on the line violates EVENT_NAME_STYLE (remove the comment)\n"},
		{"a rule that is not asked", "  - name: good # mcpe:ignore URI_FORMAT because\n", ""},
		{"two lines above", "  # mcpe:ignore EVENT_NAME_STYLE because\n\n  - name: Bad\n",
			"events.yaml:3:3: warning MCPE552: nothing on the line violates EVENT_NAME_STYLE (remove the comment)\n" +
				"events.yaml:5:11: error EVENT_NAME_STYLE: event name \"Bad\" is not lower-case words joined by '_' and '.' (as in bad)\n"},
		{"another word", "  - name: good # mcpe:ignored EVENT_NAME_STYLE because\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := text(check(t, []byte(head+c.event+tail), rule.Selection{Use: []string{"EVENT_NAME_STYLE", "EVENT_NAME_PAST"}, Except: []string{"EVENT_NAME_PAST"}}))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

const plain = `version: 1
schemas:
  Note: {type: object, properties: {id: {type: string}, text: {type: string}}, required: [id]}
  Filter: {type: object, properties: {text: {type: string, description: Words.}}, required: [text], additionalProperties: false}
events:
  - name: note.added
    description: Fires when a note is added.
    inputSchema: {$ref: '#/schemas/Filter'}
    payloadSchema: {$ref: '#/schemas/Note'}
`

// A shared schema is judged by what refers to it: text is a filter here and a payload's there.
func TestSharedSchemas(t *testing.T) {
	want := "events.yaml:3:57: warning PAYLOAD_FREE_TEXT: field \"text\" carries free text of any length in every occurrence (leave it to a link or a tool call, or bound it by maxLength)\n"
	if diff := cmp.Diff(want, text(check(t, []byte(plain), rule.Selection{}))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestSelection(t *testing.T) {
	for _, c := range []struct {
		s    rule.Selection
		want int
	}{
		{rule.Selection{}, 1},
		{rule.Selection{Use: []string{lint.Minimal}}, 0},
		{rule.Selection{Use: []string{lint.Strict}}, 6},
		{rule.Selection{Use: []string{lint.Strict}, Except: []string{"STRING_UNBOUNDED"}}, 3},
		{rule.Selection{Ignore: []rule.Ignore{{Path: "events.yaml"}}}, 0},
		{rule.Selection{Ignore: []rule.Ignore{{Path: "other.yaml"}}}, 1},
		{rule.Selection{Ignore: []rule.Ignore{{Rules: []string{"PAYLOAD_FREE_TEXT"}, Path: "*.yaml"}}}, 0},
	} {
		if got := check(t, []byte(plain), c.s); len(got) != c.want {
			t.Errorf("%+v: %s", c.s, text(got))
		}
	}
	raised := check(t, []byte(plain), rule.Selection{Severity: map[string]source.Severity{"PAYLOAD_FREE_TEXT": source.Error}})
	if !source.HasErrors(raised) {
		t.Error("a severity of the configuration has no effect")
	}
}
