// Command tidemark, of the benchmarks, is the tidemark command with the Nexmark generator as a
// connector.
package main

import (
	"os"

	_ "github.com/tidemark-stream/tidemark/bench/nexmark/source" // the connector 'nexmark'
	_ "github.com/tidemark-stream/tidemark/connector/standard"   // the standard connectors and formats
	"github.com/tidemark-stream/tidemark/internal/cli"
)

func main() { os.Exit(cli.Main()) }
