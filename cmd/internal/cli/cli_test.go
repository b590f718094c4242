package cli

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var errMisuse = errors.New("misuse of a library")

// program returns a run of a command with the verb fail, which fails with err, and the group box, which has the verb
// open.
func program(stderr io.Writer, err error) (*Program, *cobra.Command) {
	p := &Program{Stdout: io.Discard, Stderr: stderr, Version: VersionOf(nil), Misuse: func(err error) bool { return errors.Is(err, errMisuse) }}
	root := &cobra.Command{Use: "tool"}
	p.Root(root, "text", "json")
	Group(root)
	fail := &cobra.Command{Use: "fail", RunE: func(*cobra.Command, []string) error { return err }}
	fail.Flags().String("listen", "", "")
	box := &cobra.Command{Use: "box"}
	Group(box)
	box.AddCommand(&cobra.Command{Use: "open", Args: NoArgs, RunE: func(*cobra.Command, []string) error { return nil }})
	root.AddCommand(fail, box)
	return p, root
}

func TestErrorsAndExitCodes(t *testing.T) {
	for _, c := range []struct {
		args string
		err  error
		code int
		want string
	}{
		{"fail", nil, OK, ""},
		{"fail", errors.New("a\nb"), Failure, "tool: a\\nb\n"},
		{"fail", errMisuse, Usage, "tool: misuse of a library\n"},
		{"fail", Usagef("no %s", "x"), Usage, "tool: no x (see tool fail --help)\n"},
		{"fail", Refuse(errors.New("no")), Usage, "tool: no\n"},
		{"fail", Silent(7), 7, ""},
		{"fail", &Exit{Code: Usage, Err: errors.New("write"), Lines: []string{"one", "two"}}, Usage, "tool: write:\none\ntwo\n"},
		{"fail --format json", errors.New("a\nb"), Failure, `{"severity":"error","message":"a\nb"}` + "\n"},
		{"fail --format xml", nil, Usage, "tool: --format xml: must be text or json (see tool fail --help)\n"},
		{"fail --color blue", nil, Usage, "tool: --color blue: must be auto, always or never (see tool fail --help)\n"},
		{"fail --lisen :1", nil, Usage, "tool: unknown flag: --lisen; did you mean --listen? (see tool fail --help)\n"},
		{"fail --formt json", nil, Usage, "tool: unknown flag: --formt; did you mean --format? (see tool fail --help)\n"},
		{"fail --bogus", nil, Usage, "tool: unknown flag: --bogus (see tool fail --help)\n"},
		{"fail -z", nil, Usage, "tool: unknown shorthand flag: 'z' in -z (see tool fail --help)\n"},
		{"fali", nil, Usage, "tool: unknown command \"fali\"; did you mean fail? (see tool --help)\n"},
		{"box opne", nil, Usage, "tool: unknown command \"opne\"; did you mean open? (see tool box --help)\n"},
		{"box open it", nil, Usage, "tool: open takes no arguments, got \"it\" (see tool box open --help)\n"},
		{"help box opne", nil, Usage, "tool: unknown command \"opne\"; did you mean open? (see tool --help)\n"},
		{"help box", nil, OK, ""},
	} {
		var stderr strings.Builder
		p, root := program(&stderr, c.err)
		if code := p.Run(root, strings.Fields(c.args)); code != c.code || stderr.String() != c.want {
			t.Errorf("%s, %v: exit code %d, %q; want %d, %q", c.args, c.err, code, stderr.String(), c.code, c.want)
		}
	}
}
