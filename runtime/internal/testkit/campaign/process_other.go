//go:build !unix

package campaign

import (
	"errors"
	"os"
)

// Pause suspends a process.
func Pause(*os.Process) error { return errors.ErrUnsupported }

// Resume resumes a process.
func Resume(*os.Process) error { return errors.ErrUnsupported }
