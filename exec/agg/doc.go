// Package agg computes aggregates: accumulators laid out in the records of a state table and
// updated column by column, a batch at a time.
//
//	Set    the aggregates of one operator, compiled: which words of a record hold what
//	Store  the accumulators of many groups: records, and beside them values of varying size
//	       and the distinct values of groups
//
// A Set adds rows to records (Add), adds the records of one store to those of another (Merge),
// moves slices into and out of a sliding window (SlideIn, SlideOut), and writes results as
// columns (Emit). What several aggregates have in common they share: AVG(x) and SUM(x) one sum,
// all aggregates over DISTINCT x one set of values with a bit, or a count, for each FILTER.
//
// Order: aggregates over integers and DECIMALs do not depend on the order of rows. Floating-point
// sums, FIRST/LAST_VALUE and the lists do, and are always updated in the order of arrival.
// Sums of integers wrap around. A DECIMAL sum of more than 38 digits becomes NULL, and starts
// again with the next value, as in Flink.
package agg
