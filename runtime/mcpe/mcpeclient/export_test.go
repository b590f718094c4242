package mcpeclient

// Unknown is how many ids of nobody's are kept.
func (m *Client) Unknown() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.early)
}
