package sqlite

import "io/fs"

func countLinks(fs.FileInfo) uint64 { return 1 }
