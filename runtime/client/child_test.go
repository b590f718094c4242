package client

func runChild() bool { return false }
