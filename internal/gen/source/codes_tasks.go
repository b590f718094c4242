package source

// taskCodes lists the codes for diagnostics about tasks and conversations in event files.
var taskCodes = []Code{
	{ID: "MCPE154", Title: "task or conversation described twice", Explanation: "Two tasks of the files that are generated together have the same name, or two files have a conversation. A " +
		"server has one tool per name and one conversation. Both places are shown: rename or remove one."},
	{ID: "MCPE155", Title: "name taken by a protocol", Explanation: "A task or a read tool is named like a tool of the protocols (is_mcpc_enabled, events_subscribe, events_wait, …), a " +
		"task has an argument that clients of MCPC add to every call (mcpc_params, _metadata), or a structured context " +
		"declares memories, which it always has. Choose another name."},
}
