package pgtest

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// TestURL starts a cluster where none is named, uses it and leaves no schema behind.
func TestURL(t *testing.T) {
	name := Schema(t)
	Exec(t, URL(t), "CREATE SCHEMA "+name, "CREATE TABLE "+name+".t (n int)")
}
