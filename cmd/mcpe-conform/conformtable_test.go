package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/clients"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/receivers"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
)

var updateTable = flag.Bool("update-conform", false, "rewrite the table of docs/conform-checks.md")

const conformPage = "../../docs/conform-checks.md"

// notSeen says why no check tries a requirement.
var notSeen = map[string]string{
	"CAP-5":   "bounds are options of a server; to find them is an attack",
	"CAP-7":   "bounds are options of a server; to find them is an attack",
	"LIST-4":  "only its author knows what is hidden from whom",
	"LIST-5":  "nothing from outside changes the set of event types",
	"EVOL-1":  "nothing from outside removes an event type",
	"EVOL-2":  "nothing from outside changes an event type",
	"EVOL-3":  "nothing from outside changes an event type",
	"ERR-3":   "no document names a status",
	"ERR-4":   "nothing from outside makes an internal error; ERR-5 looks for secrets",
	"OCC-5":   "nothing from outside emits",
	"MATCH-3": "nothing from outside changes an event type",
	"OCC-6":   "only its author knows what a principal may see",
	"OCC-7":   "only its author knows what a principal may see",
	"CUR-6":   "a cap is the server's choice, and takes as long as it is",
	"CUR-8":   "needs a store that is put back",
	"CUR-9":   "needs a store that is damaged",
	"POLL-5":  "any number that is not negative is right; the form is tried by POLL-2",
	"POLL-8":  "leases are seen by the author's hooks",
	"PUSH-5":  "nothing from outside makes the upstream fail",
	"PUSH-6":  "nothing from outside ends an event type",
	"SUB-8":   "quotas are options of a server; to find them is an attack",
	"SSRF-3":  "which path a request takes is not seen; SSRF-1 and SSRF-2 are tried at verification",
	"HOOK-5":  "takes longer than a run",
	"HOOK-7":  "nothing from outside makes a gap or ends an event type",
	"HOOK-9":  "a rate is an option of a server",
	"HOOK-10": "an option of a server that no caller asks for",
	"AUTH-1":  "only its author knows who may have what",
	"AUTH-2":  "nothing from outside changes what a caller may have",
	"AUTH-3":  "where a principal comes from is not seen; that there is one by SUB-2",
	"AUTH-4":  "takes as long as a token lives",
	"AUTH-5":  "which origins may call is an option of a server",
	"SRV-1":   "the server's API",
	"SRV-2":   "the server's API",
	"SRV-3":   "the server's API",
	"SRV-5":   "the server's API",
	"SRV-6":   "the server's API",
	"SRV-7":   "the generator's",
	"SRV-8":   "the server's API",
	"D1":      "either place is right: CAP-1",
	"D4":      "each era is tried by a separate run, with --revision",
	"D5":      "tried by POLL-9",
	"D6":      "either answer is right: SUB-9",
	"D7":      "nothing from outside makes a gap",
	"D8":      "nothing from outside changes the list",
	"D9":      "nothing from outside ends a stream in order",
	"D11":     "only of a relay, whose upstream would have to be played",
	"D13":     "a rule for this project",
	"D14":     "of cancelled requests on standard input and output: PUSH-8 and POLL-9",
	"CLI-7a":  "a word that a client says or not has no meaning that is known",
	"CLI-8":   "the client's API",
	"CLI-9":   "list_changed reaches a client by a request that not every client makes",
	"CLI-10":  "the use of a payload by an application is not visible",
	"CLI-11":  "of a relay both sides would have to be played",
	"CLI-12":  "the client's API",
}

// notSeenOf says it of all requirements that begin so, and have no check.
var notSeenOf = []struct{ prefix, why string }{
	{"CON-", "the API of a consumer"}, {"COAL-", "the client decides which events it joins"}, {"HOST-", "the tools of a server are its own choice"}, {"BRIDGE-", "what reaches an agent is not seen on the wire"},
	{"MATCH-", "only its author knows which payloads an argument selects"}, {"ACTOR-", "only its author knows who caused an event"},
	{"TEST-", "the API of tests"}, {"REP-", "which replica answers is not seen; make cluster tries it"}, {"JS-", "the store's"}, {"OB-", "the relay runs next to the database"},
	{"MCPE-", "another protocol"}, {"MCPC-", "another protocol"}, {"CONV-", "another protocol"}, {"TASK-", "an experiment"},
	{"MODEL-", "the generator's"}, {"TS-", "the generator's"}, {"PLUG-", "the generator's"},
}

// requirementRow matches the ID of a row of docs/requirements.md.
var requirementRow = regexp.MustCompile(`(?m)^\| ((?:[A-Z]+-)+[0-9]+[a-z]?|D[0-9]+) \|`)

// described are the checks of a judge by requirement, as the table has them.
func described(checks []verdict.Check) map[string]string {
	by := map[string]string{}
	for _, c := range checks {
		text := "`" + c.Name + "` " + c.Title
		for _, f := range c.Flags {
			text += " `" + f + "`"
		}
		if c.Advice {
			text += " (advice)"
		}
		if by[c.ID] != "" {
			text = by[c.ID] + "; " + text
		}
		by[c.ID] = text
	}
	return by
}

func whyNotSeen(id string) string {
	if why := notSeen[id]; why != "" {
		return why
	}
	for _, of := range notSeenOf {
		if strings.HasPrefix(id, of.prefix) {
			return of.why
		}
	}
	return ""
}

// TestConformTable keeps the table of docs/conform-checks.md: each requirement has checks, of servers, receivers or clients,
// or a reason why it has none.
func TestConformTable(t *testing.T) {
	requirements, err := os.ReadFile("../../docs/requirements.md")
	if err != nil {
		t.Fatal(err)
	}
	roles := []map[string]string{described(conform.Checks()), described(receivers.Checks()), described(clients.Checks())}
	var table strings.Builder
	table.WriteString("| Requirement | Servers | Receivers | Clients |\n|---|---|---|---|\n")
	known, tried := map[string]bool{}, 0
	for _, m := range requirementRow.FindAllStringSubmatch(string(requirements), -1) {
		id := m[1]
		known[id] = true
		var cells []string
		seen := false
		for _, by := range roles {
			cells = append(cells, by[id])
			seen = seen || by[id] != ""
		}
		if seen {
			tried++
		}
		why := whyNotSeen(id)
		switch _, listed := notSeen[id]; {
		case roles[0][id] != "" && listed:
			t.Errorf("%s has checks of servers and a reason why it has none", id)
		case cells[0] == "" && why != "":
			cells[0] = "not: " + why
		case !seen:
			t.Errorf("%s has neither a check nor a reason why it has none", id)
		}
		fmt.Fprintf(&table, "| %s | %s |\n", id, strings.Join(cells, " | "))
	}
	if tried < 60 {
		t.Errorf("%d requirements are tried", tried)
	}
	for id := range notSeen {
		if !known[id] {
			t.Errorf("docs/requirements.md has no %s", id)
		}
	}
	for _, by := range roles {
		for id := range by {
			if !known[id] {
				t.Errorf("docs/requirements.md has no %s", id)
			}
		}
	}
	page, err := os.ReadFile(conformPage)
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	begin := strings.Index(text, "| Requirement |")
	if begin < 0 {
		t.Fatal("docs/conform-checks.md has no table")
	}
	if text[begin:] == table.String() {
		return
	}
	if !*updateTable {
		t.Fatal("docs/conform-checks.md is out of date: go test ./cmd/mcpe-conform -run TestConformTable -update-conform")
	}
	if err := os.WriteFile(conformPage, []byte(text[:begin]+table.String()), 0o666); err != nil {
		t.Fatal(err)
	}
}
