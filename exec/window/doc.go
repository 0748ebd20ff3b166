// Package window holds the operators of windows: the window functions that append a window to each
// row (NewTVF) and the window aggregations that the planner fuses with them (NewAgg).
//
// Aligned windows (tumble, hop, cumulate) are cut into slices that windows share; a row is added
// to its slice once, whatever the number of its windows. When a window ends, a hop moves the new
// slice into a running aggregate and the oldest out of it; a cumulate only in; a tumble is its
// slice. So neither a row nor a firing costs more with more slices. Aggregates that cannot give
// rows back (floating-point sums, lists, distinct values, sketches) merge the slices at each
// firing instead.
//
// Lateness follows the stamps: a row is late for a window whose last millisecond, plus the allowed
// lateness, is not after the row's stamp. Firing follows the operator's own watermark. A row that
// is late for a window that has not fired yet, but not for others of its slice, waits until that
// window has fired (held.go), so that a batch of many rows gives what rows one by one give.
//
// Rows that are late for a window go to whoever wants them (late.go). Windows that show results before
// they are over, correct them after that, or tell what caused them are kept apart from each other, with
// what was shown of them (emitting.go, sessions.go, show.go, cause.go). Windows that are shown once, when
// nothing can correct them any more, are ordinary ones that are over later.
//
// What survives a restart is entries of keyed state, one a key and slice, window or (with sessions)
// key, and the watermark; save.go says how they look, agg_save.go how parts that were differently far
// come together. A local phase keeps nothing: it emits what it holds before a checkpoint.
//
// Times in this package are milliseconds of local wall-clock time, in the window's time zone,
// unless they are called instants; without a zone both are the same.
package window
