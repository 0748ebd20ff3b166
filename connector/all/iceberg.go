//go:build !noiceberg

package all

// With its libraries it is the largest connector by far; the build tag noiceberg leaves it out.
import _ "github.com/tidemark-stream/tidemark/connector/iceberg" // registers itself
