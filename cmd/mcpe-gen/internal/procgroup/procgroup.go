// Package procgroup ends a command together with what it has started, where the system has process groups; elsewhere
// the command alone.
package procgroup
