package events

// MCPE contains the settings of an event type for the MCPE protocol. See MCPE-MATCH-1.
type MCPE struct {
	// Disabled hides the type from MCPE clients.
	Disabled bool `json:"disabled,omitempty"`
	// Priority is low, normal, high or critical; empty means normal.
	Priority string `json:"priority,omitempty"`
	// Tags are set on every occurrence of the type.
	Tags []string `json:"tags,omitempty"`
}
