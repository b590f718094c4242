package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// required is set where promtool must be there, as in CI.
const required = "MCPE_TEST_PROMTOOL_REQUIRED"

// promtool runs Prometheus's own checker.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	program, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv(required) != "" {
			t.Fatal("promtool is missing: install Prometheus (Debian's package is prometheus)")
		}
		t.Skip("NO PROMTOOL: the alert rules were not tried; install Prometheus (Debian's package is prometheus)")
	}
	if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", args[0], err, out)
	}
}

// A trial is what has one alert fire: series in promtool's notation, a sample a minute.
type trial struct {
	series map[string]string
	quiet  map[string]string // with which it does not
}

// one is a trial of one series.
func one(series, fires, quiet string) trial {
	return trial{map[string]string{series: fires}, map[string]string{series: quiet}}
}

const (
	j = `job="a",instance="i"`
	// born is a counter that a program began to export in the middle: what it counts had not happened before. grows is one
	// that was there, and still one that does not grow.
	born  = "_x30 1x170"
	grows = "5x150 6+1x50"
	still = "5x200"
)

func counter(name, labels string) string { return "mcp_events_" + name + "{" + j + "," + labels + "}" }

// trials has what each alert fires for after 200 minutes; a counter of what must never happen has to be born only.
var trials = map[string][]trial{
	"EventsEmitFails": {one(counter("emit_calls_total", `mcp_events_outcome="failed",error_type="invalid_payload",mcp_events_type="t"`), "_x198 1x2", still),
		one(counter("emit_calls_total", `mcp_events_outcome="failed",error_type="invalid_payload",mcp_events_type="t"`), grows, still)},
	"EventsQuiet": {one(counter("log_appended_total", `mcp_events_type="t"`), still, "0+1x200")},
	"EventsReplicasDiffer": {{map[string]string{`mcp_events_log_appended_total{job="a",instance="i",mcp_events_type="t"}`: "0+60x200",
		`mcp_events_log_appended_total{job="a",instance="k",mcp_events_type="t"}`: "7x200"},
		map[string]string{`mcp_events_log_appended_total{job="a",instance="i",mcp_events_type="t"}`: "0+60x200",
			`mcp_events_log_appended_total{job="a",instance="k",mcp_events_type="t"}`: "0+60x200"}}},
	"EventsPollsFail": {{map[string]string{counter("poll_answers_total", `mcp_events_outcome="failed"`): "0+1x200", counter("poll_answers_total", `mcp_events_outcome="empty"`): "0+9x200"},
		map[string]string{counter("poll_answers_total", `mcp_events_outcome="failed"`): "0+1x200", counter("poll_answers_total", `mcp_events_outcome="empty"`): "0+99x200"}}},
	"EventsManyHeldPolls": {one(counter("poll_held", `mcp_events_type="t"`), "4000x200", "100x200")},
	"EventsNoPollers":     {one(counter("poll_leases", `mcp_events_type="t"`), "5x180 0x20", "5x200")},
	"EventsStreamsLost":   {one(counter("stream_open", `mcp_events_type="t"`), "50x197 20x3", "50x197 40x3")},
	"EventsStreamsStandStill": {{map[string]string{counter("stream_open", `mcp_events_type="t"`): "5x200", counter("stream_frames_total", `mcp_events_frame="control"`): "9x200"},
		map[string]string{counter("stream_open", `mcp_events_type="t"`): "5x200", counter("stream_frames_total", `mcp_events_frame="control"`): "0+5x200"}}},
	"EventsStreamFallsBehind": {one(counter("stream_lag", `mcp_events_type="t"`), "0+10x200", "150x200")},
	"EventsStoreSlow": {{map[string]string{counter("store_duration_seconds_bucket", `mcp_events_operation="append",le="1"`): "0+1x200", counter("store_duration_seconds_bucket", `mcp_events_operation="append",le="5"`): "0+10x200",
		counter("store_duration_seconds_bucket", `mcp_events_operation="append",le="+Inf"`): "0+10x200"},
		map[string]string{counter("store_duration_seconds_bucket", `mcp_events_operation="append",le="1"`): "0+10x200", counter("store_duration_seconds_bucket", `mcp_events_operation="append",le="+Inf"`): "0+10x200"}}},
	"EventsStoreFails":    {one(counter("store_duration_seconds_count", `mcp_events_operation="append",error_type="_OTHER"`), "_x198 1x2", still)},
	"EventsTailLate":      {one(counter("tail_delay_seconds", `mcp_events_type="t"`), "20x200", "1x200")},
	"EventsOutboxRejects": {one("mcp_events_outbox_rejected_total{"+j+"}", "_x195 1x5", still), one("mcp_events_outbox_rejected_total{"+j+"}", grows, still)},
	"EventsOutboxWaits":   {one("mcp_events_outbox_age_seconds{"+j+"}", "90x200", "1x200")},
	"EventsControlLate":   {one("mcp_events_control_delay_seconds{"+j+"}", "20x200", "1x200")},
	"EventsNewEpochs":     {one("mcp_events_store_generation{"+j+"}", "1x195 2x5", "1x200")},
	"EventsShardsWithoutOwner": {{map[string]string{`mcp_events_shard_owned{job="a",instance="i",mcp_events_work="t"}`: "8x200", `mcp_events_shard_owned{job="a",instance="k",mcp_events_work="t"}`: "8x190 0x10"},
		map[string]string{`mcp_events_shard_owned{job="a",instance="i",mcp_events_work="t"}`: "8x190 16x10", `mcp_events_shard_owned{job="a",instance="k",mcp_events_work="t"}`: "8x190 0x10"}}},
	"EventsLeaseLost": {one("mcp_events_lease_held{"+j+"}", "0x200", "1x200")},
	"EventsWebhookAbandoned": {one(counter("webhook_deliveries_total", `mcp_events_outcome="abandoned",mcp_events_type="t"`), "_x195 1x5", still),
		one(counter("webhook_deliveries_total", `mcp_events_outcome="abandoned",mcp_events_type="t"`), grows, still)},
	"EventsWebhookLost": {one(counter("webhook_deliveries_total", `mcp_events_outcome="lost",mcp_events_type="t"`), born, "0x200")},
	"EventsWebhookAttemptsFail": {{map[string]string{counter("webhook_attempts_total", `mcp_events_outcome="failed"`): "0+4x200", counter("webhook_attempts_total", `mcp_events_outcome="accepted"`): "0+6x200"},
		map[string]string{counter("webhook_attempts_total", `mcp_events_outcome="failed"`): "0+1x200", counter("webhook_attempts_total", `mcp_events_outcome="accepted"`): "0+9x200"}}},
	"EventsWebhookSlow": {{map[string]string{counter("webhook_attempt_duration_seconds_bucket", `le="0.1"`): "0+9x150 1351+1x50", counter("webhook_attempt_duration_seconds_bucket", `le="5"`): "0+10x200", counter("webhook_attempt_duration_seconds_bucket", `le="+Inf"`): "0+10x200"},
		map[string]string{counter("webhook_attempt_duration_seconds_bucket", `le="0.1"`): "0+9x200", counter("webhook_attempt_duration_seconds_bucket", `le="5"`): "0+10x200", counter("webhook_attempt_duration_seconds_bucket", `le="+Inf"`): "0+10x200"}}},
	"EventsWebhookWorkersBusy": {one("mcp_events_webhook_attempt_in_flight{"+j+"}", "512x200", "100x200")},
	"EventsWebhookSuspended":   {one(counter("webhook_subscriptions", `mcp_events_state="suspended"`), "1x195 2x5", "2x200"), one(counter("webhook_subscriptions", `mcp_events_state="suspended"`), "0x195 1x5", "0x200")},
	"EventsWebhookFallsBehind": {one(counter("webhook_lag", `mcp_events_type="t"`), "9000x200", "10x200")},
	"EventsWebhookProbed":      {one(counter("webhook_verifications_total", `mcp_events_outcome="refused"`), "0+30x200", "0+1x200")},
	"EventsIngressRefuses":     {one(counter("ingress_deliveries_total", `mcp_events_outcome="refused",mcp_events_provider="github"`), "_x195 1x5", still)},
	"EventsIngressUnfit":       {one(counter("ingress_deliveries_total", `mcp_events_outcome="unfit",mcp_events_provider="github"`), "_x195 1x5", still)},
	"EventsMCPESilent": {{map[string]string{counter("mcpe_notifications_total", `mcp_method_name="m"`): "7x200", counter("stream_open", `mcp_events_type="t"`): "1x200", counter("log_appended_total", `mcp_events_type="t"`): "0+1x200"},
		map[string]string{counter("mcpe_notifications_total", `mcp_method_name="m"`): "0+1x200", counter("stream_open", `mcp_events_type="t"`): "1x200", counter("log_appended_total", `mcp_events_type="t"`): "0+1x200"}}},
	"EventsMCPEDrops": {one(counter("mcpe_dropped_total", `error_type="gap"`), "_x198 1x2", still)},
	"EventsMCPEHandlersFail": {{map[string]string{counter("mcpe_handlers_total", `mcp_events_outcome="failed",mcp_events_handler="h"`): "0+2x200", counter("mcpe_handlers_total", `mcp_events_outcome="done",mcp_events_handler="h"`): "0+8x200"},
		map[string]string{counter("mcpe_handlers_total", `mcp_events_outcome="done",mcp_events_handler="h"`): "0+8x200"}}},
	"EventsConsumerDeadLetters": {one(counter("consume_tries_total", `mcp_events_outcome="dead",mcp_events_type="t"`), "_x195 1x5", still)},
	"EventsConsumerFull":        {one(counter("consume_problems_total", `error_type="dead_letters_full",mcp_events_type="t"`), "_x195 1x5", still)},
	"EventsConsumerProblems":    {one(counter("consume_problems_total", `error_type="gap",mcp_events_type="t"`), "_x195 1x5", still)},
	"EventsConsumerHeldUp":      {one(counter("consume_in_flight", `mcp_events_type="t"`), "2000x200", "5x200")},
	"EventsConsumerLags":        {one(counter("consume_lag_seconds", `mcp_events_type="t"`), "700x200", "5x200")},
}

// Prometheus takes the rules, and each fires for what it is about and for nothing else. What happens for the first time is
// seen too: its series begins with 1 and has not grown since.
func TestAlertsFire(t *testing.T) {
	file, err := filepath.Abs("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	type list []map[string]any
	var fires, quiet struct{ input, expect list }
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(text), -1) {
		alert := m[1]
		if len(trials[alert]) == 0 {
			t.Errorf("nothing tries %s", alert)
		}
		for i, try := range trials[alert] {
			job := fmt.Sprintf("%s-%d", alert, i+1) // each trial is another job, so that one run has them all
			expr := fmt.Sprintf(`count(ALERTS{alertname=%q,job=%q,alertstate="firing"})`, alert, job)
			for s, values := range try.series {
				fires.input = append(fires.input, map[string]any{"series": strings.Replace(s, `job="a"`, `job="`+job+`"`, 1), "values": values})
			}
			fires.expect = append(fires.expect, map[string]any{"expr": expr, "eval_time": "200m", "exp_samples": list{{"labels": "{}", "value": 1}}})
			for s, values := range try.quiet {
				quiet.input = append(quiet.input, map[string]any{"series": strings.Replace(s, `job="a"`, `job="`+job+`"`, 1), "values": values})
			}
			quiet.expect = append(quiet.expect, map[string]any{"expr": expr, "eval_time": "200m", "exp_samples": list{}})
		}
	}
	tests := list{{"name": "fires", "interval": "1m", "input_series": fires.input, "promql_expr_test": fires.expect},
		{"name": "is quiet", "interval": "1m", "input_series": quiet.input, "promql_expr_test": quiet.expect}}
	content, err := json.Marshal(map[string]any{"rule_files": []string{file}, "evaluation_interval": "1m", "tests": tests}) // JSON is YAML
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "trials.yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
	promtool(t, "test", "rules", path)
}

// Each alert says where its runbook is, and the page has a section for it.
func TestRunbook(t *testing.T) {
	text, err := os.ReadFile("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, rule := range strings.Split(string(text), "- alert: ")[1:] {
		alert, rule, _ := strings.Cut(rule, "\n")
		named[alert] = true
		if want := "runbook_url: https://github.com/mcpe-gen/mcpe-gen/blob/main/docs/alerts.md#" + strings.ToLower(alert) + "\n"; !strings.Contains(rule, want) {
			t.Errorf("%s: no %s", alert, want)
		}
		_, section, ok := strings.Cut(string(page), "\n### "+alert+"\n")
		section, _, _ = strings.Cut(section, "\n#")
		if !ok || len(strings.Fields(section)) < 10 {
			t.Errorf("docs/alerts.md says nothing of %s", alert)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(string(page), -1) {
		if !named[m[1]] {
			t.Errorf("there is no alert %s", m[1])
		}
	}
}
