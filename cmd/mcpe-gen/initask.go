package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/starter"
	"github.com/mcpe-gen/mcpe-gen/templates"
)

// A question is a question that init asks unless a flag has answered it.
type question struct {
	flag, text string
	// choices are the valid answers. If choices is empty, check validates the answer.
	choices []string
	check   func(answer string) error
	// answerField returns a pointer to the field for the answer.
	answerField func(*initOptions) *string
}

// initQuestions contains all questions in the order in which init asks them.
var initQuestions = []question{
	{flag: "module", text: "Name of the module", check: templates.CheckModule, answerField: func(s *initOptions) *string { return &s.module }},
	{flag: "transport", text: "What the server speaks", choices: templates.Transports, answerField: func(s *initOptions) *string { return &s.transport }},
	{flag: "source", text: "Where events come from", choices: templates.Sources, answerField: func(s *initOptions) *string { return &s.source }},
}

// fromQuestions returns the questions of init --from. Webhooks arrive over HTTP and become emitted events, so it only
// asks for the event types.
func fromQuestions(service string) []question {
	known := starter.Names(service)
	text := fmt.Sprintf("Event types of %s, by commas", service)
	if len(known) <= 8 {
		text += " (of " + strings.Join(known, ", ") + ")"
	} else {
		text += fmt.Sprintf(" (%d, such as %s; docs of the service list them)", len(known), strings.Join(known[:3], ", "))
	}
	return []question{initQuestions[0], {flag: "events", text: text, answerField: func(s *initOptions) *string { return &s.chosenEvents },
		check: func(answer string) error {
			_, err := starter.New(service, splitEvents(answer))
			return err
		}}}
}

// splitEvents splits names at commas.
func splitEvents(text string) []string {
	var names []string
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// questions returns the questions that no flag has answered, or nil if the program is not interactive.
func (c *command) questions(all []question, given func(flag string) bool) []question {
	if c.Quiet || c.Format != "text" || !cli.IsTerminal(os.Stdin) || !cli.IsTerminal(c.Stderr) {
		return nil
	}
	var open []question
	for _, q := range all {
		if !given(q.flag) {
			open = append(open, q)
		}
	}
	return open
}

// ask reads the answers to the questions from standard input. An empty answer selects the default in scaffold. After an
// invalid answer, it repeats the question.
func (c *command) ask(ctx context.Context, s *initOptions, defaults templates.Scaffold, questions []question) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	s.module = defaults.Module
	lines := inputLines(ctx)
	for _, q := range questions {
		if err := c.askUntilValid(ctx, q, q.answerField(s), lines); err != nil {
			return err
		}
	}
	return nil
}

// inputLines returns a channel of the lines of standard input. A pending read cannot be canceled, but the process exits
// soon after an interrupt.
func inputLines(ctx context.Context) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			select {
			case lines <- strings.TrimSpace(in.Text()):
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}

// askConfirmation asks the user to confirm an irreversible action. Any answer except yes is an error.
func (c *command) askConfirmation(ctx context.Context, what string) error {
	fmt.Fprintf(c.Stderr, "%s? [y/N]: ", what)
	select {
	case <-ctx.Done():
		fmt.Fprintln(c.Stderr)
	case line := <-inputLines(ctx):
		if line = strings.ToLower(line); line == "y" || line == "yes" {
			return nil
		}
	}
	return errors.New("nothing was done")
}

// askUntilValid repeats a question until the answer is valid.
func (c *command) askUntilValid(ctx context.Context, q question, answer *string, lines <-chan string) error {
	text := q.text
	if len(q.choices) > 0 {
		text += " (" + strings.Join(q.choices, " or ") + ")"
	}
	for {
		fmt.Fprintf(c.Stderr, "%s [%s]: ", text, *answer)
		select {
		case <-ctx.Done():
			fmt.Fprintln(c.Stderr)
			return errors.New("interrupted; nothing was written")
		case line, ok := <-lines:
			if !ok {
				fmt.Fprintln(c.Stderr)
				return fmt.Errorf("no answer; nothing was written (--%s says it beforehand)", q.flag)
			}
			err := q.accept(line, answer)
			if err == nil {
				return nil
			}
			fmt.Fprintf(c.Stderr, "%v\n", err)
		}
	}
}

// accept stores an answer. A prefix selects a choice, and an empty line keeps the default.
func (q question) accept(line string, answer *string) error {
	if line == "" {
		return nil
	}
	if len(q.choices) == 0 {
		if err := q.check(line); err != nil {
			return err
		}
		*answer = line
		return nil
	}
	for _, choice := range q.choices {
		if strings.HasPrefix(choice, strings.ToLower(line)) {
			*answer = choice
			return nil
		}
	}
	return fmt.Errorf("%q is neither %s", line, strings.Join(q.choices, " nor "))
}
