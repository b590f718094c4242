package clients

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/conform/verdict"
)

// faults are what a client does wrong, by the title of the check that names it.
var faults = map[string]string{
	"a server that advertises no events is asked for none":                       "asks anyway",
	"a type that offers poll is polled":                                          "follows nothing",
	"each polled event is handled once":                                          "handles twice",
	"a type that offers push is streamed":                                        "leaves streams",
	"each event of a stream is handled once":                                     "handles twice",
	"a type that offers webhook is subscribed to":                                "refuses events",
	"a challenge is answered":                                                    "no challenge",
	"each event of a webhook is handled once":                                    "drops",
	"the capability may stand at the top level alone":                            "only among extensions",
	"the capability may stand among the extensions alone":                        "only at the top",
	"a result without resultType is one":                                         "wants resultType",
	"unknown delivery modes are passed over":                                     "only known modes",
	"members that nobody knows are passed over":                                  "strict members",
	"events with members that nobody knows are handled":                          "strict events",
	"hasMore is drained at once":                                                 "no drain",
	"nextPollMs is kept":                                                         "own pace",
	"nextPollMs 0 does not make it poll in a loop":                               "no floor",
	"the cursor of a truncated page is the next one":                             "keeps old cursors",
	"a gap in a poll is reported":                                                "no gaps",
	"every page is read until hasMore is false":                                  "reads one page",
	"each event of full pages with hasMore is handled once":                      "drops the last event of a page with more after it",
	"a null or absent cursor is not sent again as one":                           "null as text",
	"a poll that failed upstream is made again":                                  "no failures",
	"there is a pause after a failure":                                           "no pause",
	"pauses grow with each failure":                                              "constant pauses",
	"nothing is lost by polls that fail":                                         "forgets",
	"polls go on after a busy server":                                            "no 503",
	"Retry-After is kept":                                                        "no Retry-After",
	"polls do not overlap":                                                       "overlaps",
	"an event that polls repeat is handled once":                                 "no dedup",
	"polls go on after a restart":                                                "no restart",
	"after a restart polls go on from the last cursor":                           "forgets",
	"nothing is lost by a restart of a polled server":                            "forgets",
	"a poll that is NotFound, by the sketch's code, is followed by events/list":  "SEP only",
	"a poll that is NotFound, by the SEP's code, is followed by events/list":     "sketch only",
	"a poll that is Forbidden, by the sketch's code, is the last":                "never stops",
	"a poll that is Forbidden, by the SEP's code, is the last":                   "never stops",
	"a poll that is Forbidden is reported":                                       "silent",
	"a stream that was cut is opened again at the last cursor":                   "forgets",
	"nothing is lost by a stream that was cut":                                   "forgets",
	"a stream that ended without terminated is opened again at the last cursor":  "forgets",
	"nothing is lost by a stream that ended":                                     "drops",
	"a stream that was refused for a while is opened at the last cursor":         "forgets",
	"there are pauses while streams are refused":                                 "no pause",
	"after a restart a stream is opened at the last cursor":                      "forgets",
	"nothing is lost by a restart of a server that streams":                      "forgets",
	"a silent stream is noticed within two heartbeats of thirty seconds":         "believes",
	"a silent stream is noticed by the heartbeats that it had":                   "patient",
	"a stream that fell silent is opened again at the last cursor":               "forgets",
	"a stream that is given up is cancelled":                                     "leaves dead streams open",
	"a comment is not a heartbeat":                                               "comments are heartbeats",
	"a stream without cursors is opened again without one":                       "null as text",
	"an event that streams repeat is handled once":                               "no dedup",
	"a gap does not end a stream":                                                "gaps end streams",
	"a gap in a stream is reported":                                              "no gaps",
	"what follows a gap is handled":                                              "drops",
	"a failure that may pass does not end a stream":                              "errors end streams",
	"terminated with NotFound, by the sketch's code, is followed by events/list": "SEP only",
	"terminated with NotFound, by the SEP's code, is followed by events/list":    "sketch only",
	"terminated with Forbidden, by the sketch's code, is the end":                "never stops",
	"terminated with Forbidden, by the SEP's code, is the end":                   "never stops",
	"terminated with Forbidden is reported":                                      "silent",
	"terminated with an unknown code is no reason to stop in silence":            "silent",
	"a schema that changed twice at one cursor is no loop":                       "schema loop",
	"a subscription is refreshed before its grant ends":                          "never refreshes",
	"a subscription is refreshed at about two thirds of its grant":               "refreshes late",
	"a refresh has the name, arguments and callback of before":                   "another callback",
	"a refresh carries the cursor of what was handled":                           "no cursors on refresh",
	"a subscription is ended when the client ends":                               "never unsubscribes",
	"a subscription without cursors is refreshed without one":                    "null as text",
	"a subscription that the server lost goes on at the last cursor":             "no cursors on refresh",
	"nothing is lost by a restart of a server that delivers":                     "no cursors on refresh",
	"a gap by webhook is taken":                                                  "refuses gaps",
	"a gap by webhook is reported":                                               "no gaps",
	"what a webhook brings after a gap is handled":                               "drops",
	"a termination by webhook is taken":                                          "refuses terminations",
	"a termination by webhook with NotFound is followed by events/list":          "ignores terminations",
	"odd pages that lose nothing are borne":                                      "fragile",
	"malformed pages are survived, or reported":                                  "fragile",
	"odd streams that lose nothing are borne":                                    "fragile",
	"malformed streams are survived, or reported":                                "fragile",
	"odd grants that lose nothing are borne":                                     "fragile",
	"malformed grants are survived, or reported":                                 "fragile",
	"malformed lists are survived, or reported":                                  "fragile",
	"no answer makes it ask in a flood":                                          "floods",
	"no answer ends it by a signal":                                              "crashes",
	"requests are messages of JSON-RPC":                                          "ids are objects",
	"a request is application/json":                                              "plain text",
	"a request accepts both JSON and a stream":                                   "accepts JSON alone",
	"a request names its revision in MCP-Protocol-Version":                       "no revision",
	"a request of the stateless revision names its method in Mcp-Method":         "no method",
	"a request about a tool, prompt or resource names it in Mcp-Name":            "no name of a tool",
	"no two requests at once have one id":                                        "one id",
	"cursors are sent as they came":                                              "changes cursors",
	"it begins without a cursor":                                                 "begins at 0",
	"it asks for types and modes that are listed":                                "another type",
	"it declares the extension":                                                  "undeclared",
	"a callback is an absolute https URL without user and fragment":              "http callbacks",
	"a secret is whsec_ and the base64 of 24 to 64 bytes":                        "short secrets",
	"it ends on SIGTERM":                                                         deaf,
}

// secret matches the beginning of one, and not the word.
var secret = regexp.MustCompile("whsec_[A-Za-z0-9+/]")

// deaf is the fault of a program that does not end when it is asked to.
const deaf = "deaf"

// TestRight judges the client without a fault, which is the measure of all faults.
func TestRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		report := judgeIn(t, Options{Handled: "-"}, wrongly(""))
		for _, f := range found(report) {
			t.Errorf("%+v", f)
		}
		if report.Skipped > 0 || report.Unfinished != nil {
			t.Errorf("%d skipped, %v", report.Skipped, report.Unfinished)
		}
	})
}

// TestFirstScenes holds that no first scene takes its mode from another, which is played at the same time.
func TestFirstScenes(t *testing.T) {
	for _, sc := range scenes() {
		if sc.first && sc.mode == "" {
			t.Errorf("%q is a first scene and has no mode of its own", sc.name)
		}
	}
}

// TestFaults breaks each check by a fault, which that check names; and nobody is blamed by a check without one.
func TestFaults(t *testing.T) {
	used := map[string]bool{}
	for _, c := range allChecks() {
		fault, ok := faults[c.title]
		if !ok {
			t.Errorf("%s, %s: has no fault", c.id, c.title)
			continue
		}
		if used[c.title] {
			t.Errorf("two checks are called %q", c.title)
		}
		used[c.title] = true
		t.Run(strings.ReplaceAll(c.title, "/", "-"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := Options{Handled: "-", only: func(sc scene) bool {
					return slices.ContainsFunc(sc.checks, func(other check) bool { return other.title == c.title }) ||
						fault == "one id" && sc.name == "a stream that falls silent"
				}}
				report := judgeHow(t, o, wrongly(fault), fault == deaf)
				i := slices.IndexFunc(report.Findings, func(f verdict.Finding) bool { return f.Title == c.title })
				f := report.Findings[i]
				if want := c.advice; f.Outcome != verdict.Fail && f.Outcome != verdict.Advice || want && f.Outcome != verdict.Advice {
					t.Fatalf("%+v\n%+v", f, found(report))
				}
				if f.ID != c.id || f.Expected == "" || f.Got == "" || f.Answer == "" {
					t.Errorf("the finding does not show all: %+v", f)
				}
				text, _ := json.Marshal(report)
				if secret.Match(text) {
					t.Error("the report has a secret")
				}
			})
		})
	}
	for title := range faults {
		if !used[title] {
			t.Errorf("there is no check %q", title)
		}
	}
}

// allChecks are those of scenes and those that hold in all.
func allChecks() (all []check) {
	for _, sc := range scenes() {
		all = append(all, sc.checks...)
	}
	for _, c := range alwaysChecks {
		all = append(all, c.check)
	}
	return all
}
