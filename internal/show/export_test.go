package show

// NewScreenOn is NewScreen on something that is like a terminal.
var NewScreenOn = newScreen
