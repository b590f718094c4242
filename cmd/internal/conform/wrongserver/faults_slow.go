package wrongserver

// slowFaults are faults that become visible only after a while.
var slowFaults = []Fault{
	{Name: "grants never end", Webhook: true, Slow: true, Checks: []string{"deliveries end with the grant, no sooner and not much later"},
		Also: []string{"a refused event does not hold up later events"}},
	{Name: "grants end early", Webhook: true, Slow: true, Checks: []string{"deliveries end with the grant, no sooner and not much later"},
		Also: []string{"a refused event does not hold up later events"}},
	{Name: "a refresh keeps nothing alive", Webhook: true, Slow: true, Checks: []string{"a subscription that is refreshed outlives its first grant"},
		Also: []string{"a refused event does not hold up later events"}},
	{Name: "old secrets sign for ever", Webhook: true, Slow: true, Checks: []string{"the secret from before a rotation signs no longer in the end"},
		Also: []string{"a refused event does not hold up later events"}},
	{Name: "one attempt is enough", Webhook: true, Slow: true,
		Checks: []string{"a refused event is sent again", "a delivery that was refused once comes in the end"}},
	{Name: "retries without a pause", Webhook: true, Slow: true,
		Checks: []string{"a refused event does not hold up later events", "there is a pause before a delivery is tried again",
			"attempts at a delivery that is always refused end, or become rare"},
		Also: []string{"the secret from before a rotation signs no longer in the end"}},
	{Name: "heartbeats stop", Slow: true, Checks: []string{"heartbeats keep their interval whatever flows"}},
	{Name: "streams break off", Slow: true, Checks: []string{"a stream lives, or ends with its result"}},
	{Name: "a held poll never ends", Slow: true,
		Checks: []string{"timeoutMs is not an error", "a held poll is answered within its time", "a held poll is answered when something occurs",
			"a poll that asks to be held long is answered in time"}},
	{Name: "old cursors are errors", Slow: true, Checks: []string{"a cursor of the beginning is not an error in the end"}},
}
