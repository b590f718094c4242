//go:build !unix

package campaign

import (
	"errors"
	"os"
)

// Pause lets a process stand still.
func Pause(*os.Process) error { return errors.ErrUnsupported }

// Resume lets it go on.
func Resume(*os.Process) error { return errors.ErrUnsupported }
