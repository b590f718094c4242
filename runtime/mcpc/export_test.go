package mcpc

// Peers counts what the adapter knows of callers.
func Peers(a *Adapter) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.peers)
}
