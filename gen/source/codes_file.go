package source

// fileCodes are filled in by their stage.
var fileCodes = []Code{}
