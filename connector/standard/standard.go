// Package standard links the connectors and formats that come without heavy libraries: what the Go
// library and the tests have. Package connector/all is these and the others.
package standard

import (
	_ "github.com/tidemark-stream/tidemark/connector/blackhole"  // registers itself
	_ "github.com/tidemark-stream/tidemark/connector/clickhouse" // registers itself
	_ "github.com/tidemark-stream/tidemark/connector/datagen"    // registers itself
	_ "github.com/tidemark-stream/tidemark/connector/file"       // registers itself
	_ "github.com/tidemark-stream/tidemark/connector/kafka"      // registers itself
	_ "github.com/tidemark-stream/tidemark/connector/postgres"   // registers itself
	_ "github.com/tidemark-stream/tidemark/connector/print"      // registers itself
	_ "github.com/tidemark-stream/tidemark/format/all"           // registers all formats
)
