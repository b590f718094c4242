package docs_test

import (
	"os"
	"strings"
	"testing"
)

// The first screen of README, which is the site's home too, says what the project is for, who can use it, and how to get it.
func TestFrontPage(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n < 120 || n > 160 {
		t.Errorf("README.md has %d lines, want 120 to 160", n)
	}
	rest := string(text)
	for _, part := range []string{
		"\n**Your MCP server ", "\n```yaml\n", "\n```go\n", "](docs/images/", "\n**Status**", "\n## Which clients receive events today\n",
		"\ngit clone ", "\ngo install ./cmd/mcpe-gen\n", "$(go env GOPATH)/bin", "\n## Five minutes", "\nmcpe-gen listen ", "\nnote.added by push from ", "`make demo`",
	} {
		_, after, ok := strings.Cut(rest, part)
		if !ok {
			t.Fatalf("README.md does not have %q after the parts before it", part)
		}
		rest = after
	}
}
