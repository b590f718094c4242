// Package procgroup starts a command and terminates it together with its child processes, if the system has process
// groups. Otherwise, it terminates only the command.
package procgroup
