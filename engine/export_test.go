package engine

// Public is public, for tests.
var Public = public
