package source

// fromCodes lists the codes for diagnostics about `from:`, which converts webhooks of a service to events.
var fromCodes = []Code{
	{ID: "MCPE156", Title: "invalid from", Explanation: "`from` names a service, the webhook that it sends, and the source of the payload's members: `from: {provider: " +
		"github, event: issues, action: opened, fields: {/repo: /repository/full_name}}`. Both sides of a field are JSON " +
		"Pointers, and no two fill the same place. `action` is only for services with actions (github, slack, gitlab, " +
		"hmac). `id` is only for hmac; the other services have their own ids. An event with `source: check` is not " +
		"emitted, so it cannot have `from`."},
	{ID: "MCPE157", Title: "webhook or member that the service does not send", Explanation: "The service has no event or action of this name, or its body has nothing at this place, so no event would ever " +
		"be emitted. Only GitHub is checked, with the schemas in mcpe-gen. Without `fields` the body is the payload, so " +
		"the members of the payloadSchema are looked up there. Check the spelling. For events that are newer than this " +
		"mcpe-gen, set `unchecked: true` in `from`."},
	{ID: "MCPE158", Title: "from that does not match the payload", Explanation: "A field of `from` fills a place that the payloadSchema does not describe, or the payloadSchema requires a member " +
		"that no field fills, so every webhook would be rejected. Add the member to one of them, or do not require it."},
	{ID: "MCPE159", Title: "from with incompatible types", Explanation: "The webhook has a value of one type at this place and the payload one of another, for example a number and a string, or an object " +
		"where the payload has its name. Point to a member within (`/issue/user/login`), to one of each element (`/issue/labels/*/name`), or correct the payloadSchema."},
}
