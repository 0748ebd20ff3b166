// Package sort holds the operators of ORDER BY and LIMIT.
//
//	All       batch mode: every row, sorted at the end
//	Temporal  event time as the first key: rows wait for the watermark
//	Top       ORDER BY ... LIMIT of an unbounded input: a changelog of the first rows
//	Limit     the first rows in the order they come
//
// These run in a single subtask.
package sort
