package peer

import (
	"bytes"
	"encoding/pem"
	"os"
	"testing"
)

// A damaged certificate is replaced: no client would accept it.
func TestDamagedCertificate(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"XDG_CACHE_HOME", "HOME", "LocalAppData"} {
		t.Setenv(name, dir)
	}
	first, name, err := loopbackCertificate()
	if err != nil {
		t.Fatal(err)
	}
	if again, _, err := loopbackCertificate(); err != nil || !bytes.Equal(again.Certificate[0], first.Certificate[0]) {
		t.Errorf("an intact certificate was replaced: %v", err)
	}
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var damaged []byte
	for block, rest := pem.Decode(whole); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			block.Bytes = bytes.Replace(block.Bytes, []byte("localhost"), []byte("localhosu"), 1)
		}
		damaged = append(damaged, pem.EncodeToMemory(block)...)
	}
	for _, text := range [][]byte{damaged, whole[:len(whole)/2], nil} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		pair, _, err := loopbackCertificate()
		if err != nil {
			t.Fatal(err)
		}
		if err := pair.Leaf.VerifyHostname("localhost"); err != nil || bytes.Equal(pair.Certificate[0], first.Certificate[0]) {
			t.Error(err)
		}
		if left, _ := os.ReadFile(name); bytes.Equal(left, text) {
			t.Error("the file was not replaced")
		}
	}
}
