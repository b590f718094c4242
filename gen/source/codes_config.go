package source

// configCodes are filled in by their stage.
var configCodes = []Code{}
