package bind_test

import (
	_ "github.com/tidemark-stream/tidemark/connector/all" // the standard connectors and formats
)
