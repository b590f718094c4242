package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/file"
)

// letters is the program "letters FILE [SEQUENCE…]" of scripts: it makes the dead letters due whose sequences are
// given, or prints all of them.
func letters() {
	if err := lettersOf(context.Background(), os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func lettersOf(ctx context.Context, path string, due []string) (err error) {
	s, err := file.OpenCursors(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, text := range due {
		sequence, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return err
		}
		if found, err := s.RetryDeadLetter(ctx, sequence); err != nil || !found {
			return fmt.Errorf("dead letter %d: found: %v, error: %v", sequence, found, err)
		}
	}
	if len(due) > 0 {
		return nil
	}
	for d, err := range clientstore.DeadLetters(ctx, s) {
		if err != nil {
			return err
		}
		fmt.Printf("%d %s %s %d %q\n", d.Sequence, d.Event, d.EventID, d.Tries, d.Error)
	}
	return nil
}
