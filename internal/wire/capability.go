package wire

import "encoding/json"

// EventsCapabilities returns the values of the events capability in a server's capabilities. The list standard contains
// those in the places of the documents (D1). The list experimental contains those in capabilities.experimental, the only
// place that some SDKs leave to a server; clients accept it, but a server must not rely on that.
func EventsCapabilities(capabilities map[string]json.RawMessage) (standard, experimental []json.RawMessage) {
	extensions, _ := DecodeMembers(capabilities["extensions"])
	others, _ := DecodeMembers(capabilities["experimental"])
	return present(capabilities[CapabilityKey], extensions[ExtensionID]), present(others[CapabilityKey], others[ExtensionID])
}

// present returns the values that are neither absent nor null.
func present(values ...json.RawMessage) (found []json.RawMessage) {
	for _, raw := range values {
		if len(raw) > 0 && string(raw) != "null" {
			found = append(found, raw)
		}
	}
	return found
}
