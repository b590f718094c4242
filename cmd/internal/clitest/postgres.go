package clitest

import (
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/internal/testkit/throwaway"
)

// OwnDatabase creates a database on the server that the connection string at refers to. It returns the new database's
// connection string.
func OwnDatabase(t *testing.T, at, name string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, statement := range []string{"DROP DATABASE IF EXISTS " + name + " WITH (FORCE)", "CREATE DATABASE " + name} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// Postgres returns the connection string of a PostgreSQL server for the test, or "" if none is available.
func Postgres(t *testing.T) string {
	if url := os.Getenv("MCPE_TEST_POSTGRES"); url != "" {
		return url
	}
	program := filepath.Join(t.TempDir(), "throwaway")
	if out, err := exec.Command("go", "build", "-o", program, "../../runtime/internal/testkit/pgtest/throwaway").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	url, stop, err := throwaway.Start(program)
	if errors.Is(err, throwaway.ErrMissing) && os.Getenv("MCPE_TEST_POSTGRES_REQUIRED") == "" {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return url
}
