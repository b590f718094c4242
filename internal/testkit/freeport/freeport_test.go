package freeport

import (
	"net"
	"strconv"
	"testing"
)

// Addresses are held until release, differ, and are none that a system gives to who asks for any.
func TestReserve(t *testing.T) {
	addrs, release, err := Reserve(20)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	seen := map[string]bool{}
	for _, addr := range addrs {
		_, text, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		if port, err := strconv.Atoi(text); err != nil || port < first || port >= last || seen[addr] {
			t.Errorf("%s: %v", addr, err)
		}
		seen[addr] = true
		if ln, err := net.Listen("tcp", addr); err == nil {
			ln.Close()
			t.Errorf("%s is free", addr)
		}
	}
	release()
	ln, err := net.Listen("tcp", addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
}
