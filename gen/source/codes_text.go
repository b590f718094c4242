package source

// textCodes are filled in by their stage.
var textCodes = []Code{}
