// Package killpoint names the places where a test kills the process, to see that nothing is lost.
//
// A place is "phase/point". In a usual build Pass is empty and compiled away. With the build tag
// killpoints the process kills itself, as kill -9 does, at the place that the environment variable
// TIDEMARK_KILL_AT names: "phase/point:n", or "phase:n" for any point of the phase; n counts the
// passings, from 1.
//
//	cut       a checkpoint begins: its cut is about to be taken, or just was
//	sealed    the output of the epoch is sealed, its manifest is not written
//	manifest  the manifest is written, nothing of the epoch is committed
//	commit    between the steps of a commit, within a target and between targets
//	restore   a start takes over from a checkpoint
package killpoint
