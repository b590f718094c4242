package source

// schemaCodes are filled in by their stage.
var schemaCodes = []Code{}
