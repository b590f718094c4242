package wrongserver

// slowFaults are faults that become visible only after a while.
var slowFaults = []Fault{
	{Name: "grants-never-end", Webhook: true, Slow: true, Checks: []string{"grant-end"}},
	{Name: "grants-end-early", Webhook: true, Slow: true, Checks: []string{"grant-end"}},
	{Name: "refresh-no-extension", Webhook: true, Slow: true, Checks: []string{"refresh-extends"}},
	{Name: "rotation-never-ends", Webhook: true, Slow: true, Checks: []string{"rotation-end"}},
	{Name: "retry-never", Webhook: true, Slow: true,
		Checks: []string{"retry", "retry-arrives"}},
	{Name: "retry-no-pause", Webhook: true, Slow: true,
		Checks: []string{"retry-pause", "retry-backoff"}, Also: []string{"rotation-end"}},
	{Name: "heartbeats-stop", Slow: true, Checks: []string{"heartbeat-interval"}},
	{Name: "streams-break-off", Slow: true, Checks: []string{"heartbeat-interval"}},
	{Name: "held-poll-never-ends", Slow: true,
		Checks: []string{"poll-timeout", "held-timeout", "held-wakes", "held-long"}},
	{Name: "old-cursors-errors", Slow: true, Checks: []string{"poll-cursor-old"}},
}
