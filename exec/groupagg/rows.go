package groupagg

// identity lists the positions 0, 1, 2 ... for batches without a selection. It is only read.
var identity = func() []int32 {
	out := make([]int32, 1<<16)
	for i := range out {
		out[i] = int32(i)
	}
	return out
}()

// vecRows returns the positions of a batch of n rows without a selection.
func vecRows(n int) []int32 {
	if n <= len(identity) {
		return identity[:n]
	}
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(i)
	}
	return out
}
