// Command tidemark runs the SQL of Apache Flink on streams and files: one binary, nothing else.
package main

import (
	"os"

	_ "github.com/tidemark-stream/tidemark/connector/all" // all connectors and formats
	"github.com/tidemark-stream/tidemark/internal/cli"
)

func main() { os.Exit(cli.Main()) }
