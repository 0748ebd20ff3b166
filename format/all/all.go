// Package all registers every format that Tidemark comes with. Import it for its side effect.
package all

import (
	_ "github.com/tidemark-stream/tidemark/format/csv"
	_ "github.com/tidemark-stream/tidemark/format/debezium"
	_ "github.com/tidemark-stream/tidemark/format/json"
	_ "github.com/tidemark-stream/tidemark/format/raw"
)
