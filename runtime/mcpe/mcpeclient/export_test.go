package mcpeclient

// Unknown is how many ids of nobody's are kept.
func (m *Client) Unknown() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.early)
}

// SetBounds sets how much waits, until the function it returns is called.
func SetBounds(events int, bytes int64, earlyEvents int, earlyBytes int64) (reset func()) {
	waiting, early := waitingBound, earlyBound
	waitingBound, earlyBound = bufferLimit{events, bytes}, bufferLimit{earlyEvents, earlyBytes}
	return func() { waitingBound, earlyBound = waiting, early }
}
