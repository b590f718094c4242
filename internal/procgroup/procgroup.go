// Package procgroup starts a command and ends it together with its child processes, if the system has process groups.
// Otherwise it ends only the command.
package procgroup
