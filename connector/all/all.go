// Package all links all connectors and formats into a binary: those of package standard, and those
// that bring heavy libraries, which make linking several times slower.
package all

import _ "github.com/tidemark-stream/tidemark/connector/standard" // registers its connectors and formats
