package netguard

import (
	"encoding/binary"
	"net/netip"
)

// A Range is a range of addresses that outbound requests must not reach unless the operator allows it.
type Range struct {
	// Prefix is the address prefix of the range.
	Prefix netip.Prefix
	// Name is the name of the range in the registry.
	Name string
	// Source is the document that reserves it, for example "RFC 1918".
	Source string

	// ipv4Offset is the offset of the IPv4 address that is embedded in addresses of this range. If it is not 0, only
	// the embedded address is checked. If it is 0, the whole range is blocked.
	ipv4Offset int
}

// lastFour is the ipv4Offset of a Range with an IPv4 address in the last four bytes.
const lastFour = 12

// ranges is the table of blocked ranges. It contains the IANA special-purpose address registries, multicast, and all
// addresses outside IPv6 global unicast. The registries list some addresses within reserved ranges as globally
// reachable, such as the anycast services 192.0.0.9/32 and 2001:1::1/128. The table does not exempt them, because they
// never host webhook receivers.
//
// The first row that contains an address applies to that address. Therefore rows with an embedded address precede the
// rows that contain them.
var ranges = []Range{
	row("0.0.0.0/8", "This network", "RFC 791"),
	row("10.0.0.0/8", "Private-Use", "RFC 1918"),
	row("100.64.0.0/10", "Shared Address Space", "RFC 6598"),
	row("127.0.0.0/8", "Loopback", "RFC 1122"),
	row("168.63.129.16/32", "Azure platform service", "Microsoft Azure documentation"),
	row("169.254.0.0/16", "Link Local", "RFC 3927"),
	row("172.16.0.0/12", "Private-Use", "RFC 1918"),
	row("192.0.0.0/24", "IETF Protocol Assignments", "RFC 6890"),
	row("192.0.2.0/24", "Documentation (TEST-NET-1)", "RFC 5737"),
	row("192.31.196.0/24", "AS112-v4", "RFC 7535"),
	row("192.52.193.0/24", "AMT", "RFC 7450"),
	row("192.88.99.0/24", "Deprecated (6to4 Relay Anycast)", "RFC 7526"),
	row("192.168.0.0/16", "Private-Use", "RFC 1918"),
	row("192.175.48.0/24", "Direct Delegation AS112 Service", "RFC 7534"),
	row("198.18.0.0/15", "Benchmarking", "RFC 2544"),
	row("198.51.100.0/24", "Documentation (TEST-NET-2)", "RFC 5737"),
	row("203.0.113.0/24", "Documentation (TEST-NET-3)", "RFC 5737"),
	row("224.0.0.0/4", "Multicast", "RFC 5771"),
	row("255.255.255.255/32", "Limited Broadcast", "RFC 8190"),
	row("240.0.0.0/4", "Reserved", "RFC 1112"),

	row("::/128", "Unspecified Address", "RFC 4291"),
	row("::1/128", "Loopback Address", "RFC 4291"),
	embedding("::ffff:0:0/96", "IPv4-mapped Address", "RFC 4291"),
	row("::ffff:0:0:0/96", "IPv4-translated Address", "RFC 2765"),
	row("::/96", "IPv4-compatible Address", "RFC 4291"),
	embedding("64:ff9b::/96", "IPv4-IPv6 Translation", "RFC 6052"),
	row("64:ff9b:1::/48", "Local-Use IPv4-IPv6 Translation", "RFC 8215"),
	row("100::/64", "Discard-Only Address Block", "RFC 6666"),
	row("100:0:0:1::/64", "Dummy IPv6 Prefix", "RFC 9780"),
	row("2001::/32", "Teredo", "RFC 4380"),
	row("2001:2::/48", "Benchmarking", "RFC 5180"),
	row("2001:10::/28", "Deprecated (ORCHID)", "RFC 4843"),
	row("2001:20::/28", "ORCHIDv2", "RFC 7343"),
	row("2001::/23", "IETF Protocol Assignments", "RFC 2928"),
	row("2001:db8::/32", "Documentation", "RFC 3849"),
	row("2002::/16", "6to4", "RFC 3056"),
	row("2620:4f:8000::/48", "Direct Delegation AS112 Service", "RFC 7534"),
	row("3fff::/20", "Documentation", "RFC 9637"),
	row("5f00::/16", "Segment Routing (SRv6) SIDs", "RFC 9602"),
	row("fc00::/7", "Unique-Local", "RFC 4193"),
	row("fe80::/10", "Link-Local Unicast", "RFC 4291"),
	row("fec0::/10", "Deprecated (Site-Local)", "RFC 3879"),
	row("ff00::/8", "Multicast", "RFC 4291"),
	// The other addresses outside 2000::/3 are unassigned.
	row("::/3", "Outside of Global Unicast", "RFC 4291"),
	row("4000::/2", "Outside of Global Unicast", "RFC 4291"),
	row("8000::/1", "Outside of Global Unicast", "RFC 4291"),
}

// isatap is the pseudo-range of ISATAP addresses, which can have any prefix. Their interface identifier embeds an IPv4
// address to which packets are tunneled.
var isatap = Range{Prefix: netip.MustParsePrefix("::/0"), Name: "ISATAP", Source: "RFC 5214", ipv4Offset: lastFour}

func row(prefix, name, source string) Range {
	return Range{Prefix: netip.MustParsePrefix(prefix), Name: name, Source: source}
}

func embedding(prefix, name, source string) Range {
	r := row(prefix, name, source)
	r.ipv4Offset = lastFour
	return r
}

// Ranges returns the table of blocked ranges in search order.
func Ranges() []Range { return append([]Range(nil), ranges...) }

// Blocked reports whether outbound requests to a are blocked, and returns the range that blocks it (SSRF-1). For
// IPv4-mapped, NAT64 (64:ff9b::/96) and ISATAP addresses, it checks the embedded IPv4 address. It blocks 6to4, Teredo,
// IPv4-compatible and local-use NAT64 addresses regardless of the embedded address. Invalid addresses and addresses
// with a zone are blocked.
func Blocked(a netip.Addr) (Range, bool) {
	if !a.IsValid() || a.Zone() != "" {
		return Range{Name: "Invalid or zoned address", Source: "RFC 4007"}, true
	}
	for _, r := range ranges {
		if !r.Prefix.Contains(a) {
			continue
		}
		if r.ipv4Offset == 0 {
			return r, true
		}
		return Blocked(embedded(a, r.ipv4Offset))
	}
	if isISATAP(a) {
		return Blocked(embedded(a, isatap.ipv4Offset))
	}
	return Range{}, false
}

func embedded(a netip.Addr, at int) netip.Addr {
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[at : at+4]))
}

func isISATAP(a netip.Addr) bool {
	if !a.Is6() {
		return false
	}
	b := a.As16()
	// The universal/local bit indicates whether the embedded address is globally unique.
	return binary.BigEndian.Uint32(b[8:12])&^(1<<25) == 0x00005efe
}
