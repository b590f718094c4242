package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// onEvent is the command "onevent FILE [CODE…]" of scripts: it appends what it reads to FILE, after its environment,
// and the n-th time that it runs its exit code is the n-th CODE, 0 when there is none. With the code "wait" it first
// waits until there is a file FILE.go.
func onEvent() {
	file := os.Args[1]
	before, _ := os.ReadFile(file)
	n := strings.Count(string(before), "\n")
	batch, err := io.ReadAll(os.Stdin)
	if err == nil {
		line := fmt.Sprintf("%s %s %s %s", os.Getenv("MCPE_EVENT"), os.Getenv("MCPE_SERVER"), os.Getenv("MCPE_COUNT"), batch)
		err = os.WriteFile(file, append(before, line...), 0o666)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("did \x1b[2J it")
	if codes := os.Args[2:]; n < len(codes) {
		for end := time.Now().Add(time.Minute); codes[n] == "wait" && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if _, err := os.Stat(file + ".go"); err == nil {
				os.Exit(0)
			}
		}
		code, err := strconv.Atoi(codes[n])
		if err != nil {
			code = 1
		}
		os.Exit(code)
	}
}
