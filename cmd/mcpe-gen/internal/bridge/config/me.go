package config

import "github.com/mcpe-gen/mcpe-gen/internal/gen/source"

// agentNames reads the agent's names from a string or a list of strings.
func (l *loader) agentNames(o *source.ObjectReader) (names []string) {
	n := o.Node.Get("me")
	switch {
	case n == nil:
		return nil
	case n.Kind == source.String:
		names = []string{n.Text}
	default:
		for _, item := range o.Texts("me") {
			names = append(names, item.Text)
		}
	}
	for _, name := range names {
		if name == "" {
			l.wrong(n, "it is the agent's name among the actors of the server's events", "me has an empty name")
		}
	}
	return names
}
