package connector

import "context"

// FixedSplits returns an enumerator of splits that are all known at the start.
func FixedSplits(splits ...Split) Enumerator { return &fixedSplits{splits} }

type fixedSplits struct{ left []Split }

func (f *fixedSplits) Discover(context.Context) ([]Split, bool, error) {
	out := f.left
	f.left = nil
	return out, true, nil
}

func (f *fixedSplits) Known(ids []string) {
	known := map[string]bool{}
	for _, id := range ids {
		known[id] = true
	}
	var left []Split
	for _, s := range f.left {
		if !known[s.ID] {
			left = append(left, s)
		}
	}
	f.left = left
}

func (f *fixedSplits) Close() error { return nil }

// OpenFunc is a Reader that only opens splits: it never wakes anybody and commits nothing.
type OpenFunc func(ctx context.Context, s Split) (SplitReader, error)

// Open implements Reader.
func (f OpenFunc) Open(ctx context.Context, s Split) (SplitReader, error) { return f(ctx, s) }

// Wake implements Reader.
func (OpenFunc) Wake() <-chan struct{} { return nil }

// Commit implements Reader.
func (OpenFunc) Commit(context.Context, map[string]Position) error { return nil }

// Close implements Reader.
func (OpenFunc) Close() error { return nil }
