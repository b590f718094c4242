package source

// fromCodes are the findings about `from:`, which makes webhooks of a service occurrences of an event.
var fromCodes = []Code{
	{ID: "MCPE156", Title: "from that cannot be", Explanation: "`from` names a service and what it sends, and where the payload's members come from: " +
		"`from: {provider: github, event: issues, action: opened, fields: {/repo: /repository/full_name}}`. Both sides of a field are JSON Pointers, and no two fill the same place. " +
		"`action` is for services that have actions (github, slack, gitlab, hmac), `id` is what hmac needs and the others have of their own, and an event with `source: check` is not emitted."},
	{ID: "MCPE157", Title: "webhook or place that the service does not send", Explanation: "The service sends no event or action of this name, or its body has nothing at this place, so that " +
		"nothing would ever come. It is checked for GitHub, by the schemas that mcpe-gen has; without `fields` the body is the payload, and what the payloadSchema describes is looked for there. " +
		"Check the spelling. For what is newer than this mcpe-gen write `unchecked: true` into `from`."},
	{ID: "MCPE158", Title: "place that the payload does not have", Explanation: "A field of `from` fills a place that the payloadSchema does not describe, or the payloadSchema requires a member that no field " +
		"fills, so that every webhook would be refused. Add the member to one of them, or do not require it."},
	{ID: "MCPE159", Title: "from between unlike types", Explanation: "The webhook has a value of one type at this place and the payload one of another, for example a number and a string, or an object " +
		"where the payload has its name. Point to a member within (`/issue/user/login`), to one of each element (`/issue/labels/*/name`), or correct the payloadSchema."},
}
