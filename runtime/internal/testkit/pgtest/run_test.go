package pgtest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

// member is set, to a file, where the test binary is to be what Run runs.
const member = "MCPE_GEN_TEST_MEMBER"

func init() {
	file := os.Getenv(member)
	if file == "" {
		return
	}
	text := "nothing was started"
	if cluster := started(); cluster != "" {
		text = ""
		for range 2 {
			dsn, end, err := database(cluster)
			if err == nil {
				err = end()
			}
			text += fmt.Sprintln(dsn, err)
		}
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(7)
}

// Each test binary below Run gets a database in one cluster, which ends with the command; Run returns the command's
// exit code.
func TestRun(t *testing.T) {
	Local(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/said"
	t.Setenv(member, file)
	t.Setenv(Variable, "")
	t.Setenv(clusterVariable, "")
	if code, err := Run([]string{program}); code != 7 || err != nil {
		t.Fatalf("%d, %v", code, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	said := strings.Fields(string(text))
	if len(said) != 4 || said[1] != "<nil>" || said[3] != "<nil>" {
		t.Fatalf("%s", text)
	}
	a, errA := url.Parse(said[0])
	b, errB := url.Parse(said[2])
	if errA != nil || errB != nil || a.Host == "" || a.Host != b.Host || a.Path == b.Path {
		t.Errorf("%s", text)
	}
	if conn, err := net.DialTimeout("tcp", a.Host, time.Second); err == nil {
		conn.Close()
		t.Errorf("%s is there afterwards", a.Host)
	}
}

// If a database is named, Run starts no cluster, and a missing command is an error.
func TestRunNot(t *testing.T) {
	t.Setenv(Variable, "postgres://another")
	t.Setenv(clusterVariable, "")
	file := t.TempDir() + "/said"
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(member, file)
	if code, err := Run([]string{program}); code != 7 || err != nil {
		t.Fatalf("%d, %v", code, err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "nothing was started" {
		t.Errorf("where another is named: %s, %v", text, err)
	}
	if _, err := Run([]string{"/no/such/command"}); err == nil {
		t.Error("a command that is none ran")
	}
}
