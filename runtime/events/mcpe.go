package events

// MCPE is what an event type says to the MCPE protocol. See MCPE-MATCH-1.
type MCPE struct {
	// Disabled keeps the type from MCPE's clients.
	Disabled bool `json:"disabled,omitempty"`
	// Priority is low, normal, high or critical; empty means normal.
	Priority string `json:"priority,omitempty"`
	// Tags are those of every occurrence of the type.
	Tags []string `json:"tags,omitempty"`
}
