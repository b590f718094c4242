package netguard

import (
	"net/netip"
	"testing"

	"code.dny.dev/ssrf"
	"pgregory.net/rapid"
)

// differences are the blocks in which code.dny.dev/ssrf and we disagree, each on purpose.
var differences = []struct {
	prefix string
	why    string
	// stricter means that we block what it does not; else we judge by the IPv4 address inside
	// what it blocks as a whole.
	stricter bool
}{
	{"::ffff:0:0/96", "resolvers report IPv4 addresses in mapped form, and dialing them is dialing IPv4", false},
	{"64:ff9b::/96", "in a network with DNS64 every IPv4-only receiver has such an address", false},
	{"168.63.129.16/32", "a public address that inside of Azure answers like link-local metadata", true},
}

// TestSSRF1BoundariesAgainstOracle compares verdicts at the first and last address of every block
// of both tables and at their neighbours (SSRF-1, trap 8).
// [Blocked] carries it.
func TestSSRF1BoundariesAgainstOracle(t *testing.T) {
	oracle := ssrf.New(ssrf.WithAnyPort(), ssrf.WithAnyNetwork())
	prefixes := append(append([]netip.Prefix{ssrf.IPv6GlobalUnicast}, ssrf.IPv4DeniedPrefixes...), ssrf.IPv6DeniedPrefixes...)
	for _, r := range Ranges() {
		prefixes = append(prefixes, r.Prefix)
	}
	used := map[string]bool{}
	for _, p := range prefixes {
		first, last := p.Masked().Addr(), lastOf(p)
		for _, a := range []netip.Addr{first.Prev(), first, first.Next(), last.Prev(), last, last.Next()} {
			if !a.IsValid() {
				continue // no neighbour beyond either end of the address space
			}
			r, ours := Blocked(a)
			theirs := oracle.SafeAddr(a) != nil
			if ours == theirs {
				continue
			}
			known := false
			for _, d := range differences {
				if netip.MustParsePrefix(d.prefix).Contains(a) && ours == d.stricter {
					known, used[d.prefix] = true, true
				}
			}
			if !known {
				t.Errorf("%s: blocked = %v (%s %s), the oracle says %v", a, ours, r.Name, r.Source, theirs)
			}
		}
	}
	// The NAT64 block begins and ends with blocked IPv4 addresses; its difference shows inside.
	if _, blocked := Blocked(netip.MustParseAddr("64:ff9b::808:808")); !blocked {
		used["64:ff9b::/96"] = true
	}
	if _, blocked := Blocked(netip.MustParseAddr("::ffff:8.8.8.8")); !blocked {
		used["::ffff:0:0/96"] = true
	}
	for _, d := range differences {
		if !used[d.prefix] {
			t.Errorf("the difference %s (%s) does not exist any more", d.prefix, d.why)
		}
	}
}

// TestSSRF1OracleAnywhere compares verdicts at random addresses.
func TestSSRF1OracleAnywhere(t *testing.T) {
	oracle := ssrf.New(ssrf.WithAnyPort(), ssrf.WithAnyNetwork())
	rapid.Check(t, func(t *rapid.T) {
		var a netip.Addr
		if rapid.Bool().Draw(t, "ipv4") {
			a = netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address")))
		} else {
			a = netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "address")))
		}
		for _, d := range differences {
			if netip.MustParsePrefix(d.prefix).Contains(a) {
				return
			}
		}
		if _, ours := Blocked(a); ours != (oracle.SafeAddr(a) != nil) && !isISATAP(a) {
			t.Fatalf("%s: blocked = %v", a, ours)
		}
	})
}

// TestSSRF1EmbeddedForms puts every IPv4 boundary into every form that carries an IPv4 address.
func TestSSRF1EmbeddedForms(t *testing.T) {
	judged := map[string]string{
		"IPv4-mapped":  "::ffff:0:0",
		"NAT64":        "64:ff9b::",
		"ISATAP":       "2606:4700::5efe:0:0",
		"ISATAP (u)":   "2606:4700::200:5efe:0:0",
		"ISATAP in DB": "2001:db8::5efe:0:0", // blocked by its prefix, whatever is inside
	}
	never := map[string]string{
		"IPv4-compatible": "::",
		"IPv4-translated": "::ffff:0:0:0",
		"local-use NAT64": "64:ff9b:1::",
		"Teredo":          "2001::",
		"6to4":            "2002::",
	}
	for _, v4 := range append(ipv4Boundaries(), netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("169.254.169.254")) {
		_, want := Blocked(v4)
		for name, base := range judged {
			a := embed(base, v4)
			if _, got := Blocked(a); got != (want || name == "ISATAP in DB") {
				t.Errorf("%s %s (%s): blocked = %v, IPv4 verdict %v", name, a, v4, got, want)
			}
		}
		for name, base := range never {
			if _, got := Blocked(embed(base, v4)); !got {
				t.Errorf("%s %s (%s) is not blocked", name, embed(base, v4), v4)
			}
		}
		// 6to4 carries the address after its prefix, Teredo its complement at the end.
		b := v4.As4()
		six := netip.AddrFrom16([16]byte{0x20, 0x02, b[0], b[1], b[2], b[3]})
		teredo := netip.AddrFrom16([16]byte{0x20, 0x01, 12: ^b[0], 13: ^b[1], 14: ^b[2], 15: ^b[3]})
		for _, a := range []netip.Addr{six, teredo} {
			if _, got := Blocked(a); !got {
				t.Errorf("%s (%s) is not blocked", a, v4)
			}
		}
	}
}

// TestSSRF1KnownAddresses is the table by example.
func TestSSRF1KnownAddresses(t *testing.T) {
	for text, name := range map[string]string{
		"127.0.0.1":        "Loopback",
		"169.254.169.254":  "Link Local",
		"100.100.100.200":  "Shared Address Space",
		"198.19.255.255":   "Benchmarking",
		"224.0.0.1":        "Multicast",
		"255.255.255.255":  "Limited Broadcast",
		"::":               "Unspecified Address",
		"::1":              "Loopback Address",
		"::127.0.0.1":      "IPv4-compatible Address",
		"::ffff:10.0.0.1":  "Private-Use",
		"64:ff9b::a00:1":   "Private-Use",
		"64:ff9b:1::1":     "Local-Use IPv4-IPv6 Translation",
		"2002:7f00:1::":    "6to4",
		"2001:0:1::1":      "Teredo",
		"2001:db8::1":      "Documentation",
		"fd00:ec2::254":    "Unique-Local",
		"fe80::1":          "Link-Local Unicast",
		"fec0::1":          "Deprecated (Site-Local)",
		"ff02::1":          "Multicast",
		"5f00::1":          "Segment Routing (SRv6) SIDs",
		"4000::1":          "Outside of Global Unicast",
		"fe80::1%eth0":     "Invalid or zoned address",
		"2606:4700::1%eth": "Invalid or zoned address",
	} {
		if r, blocked := Blocked(netip.MustParseAddr(text)); !blocked || r.Name != name {
			t.Errorf("%s: %v %q, want %q", text, blocked, r.Name, name)
		}
	}
	for _, text := range []string{"1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450::1", "64:ff9b::101:101"} {
		if r, blocked := Blocked(netip.MustParseAddr(text)); blocked {
			t.Errorf("%s is blocked by %s", text, r.Name)
		}
	}
	if _, blocked := Blocked(netip.Addr{}); !blocked {
		t.Error("the invalid address is not blocked")
	}
}

func ipv4Boundaries() []netip.Addr {
	var all []netip.Addr
	for _, r := range Ranges() {
		if !r.Prefix.Addr().Is4() {
			continue
		}
		for _, a := range []netip.Addr{r.Prefix.Addr().Prev(), r.Prefix.Addr(), lastOf(r.Prefix), lastOf(r.Prefix).Next()} {
			if a.IsValid() {
				all = append(all, a)
			}
		}
	}
	return all
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

func embed(base string, v4 netip.Addr) netip.Addr {
	b, four := netip.MustParseAddr(base).As16(), v4.As4()
	copy(b[12:], four[:])
	return netip.AddrFrom16(b)
}
