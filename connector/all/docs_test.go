package all

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
)

var update = flag.Bool("update", false, "rewrite docs/connectors.md")

// TestDocumented keeps docs/connectors.md what the declarations of connectors and formats say.
func TestDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Connectors and formats\n\nWritten from their declarations by `go test ./connector/all -update`. A star marks options that are required.\n" +
		"Options of a format are written with its name in front, as in `'json.ignore-parse-errors' = 'true'`.\n\n## Every table\n\n")
	options(&b, connector.CommonOptions)
	for _, name := range connector.Names() {
		f := connector.Lookup(name)
		fmt.Fprintf(&b, "\n## Connector `%s`\n\n%s\n", name, f.Doc)
		use := []string{}
		if f.NewSource != nil {
			use = append(use, "source")
		}
		if f.NewSink != nil {
			use = append(use, "sink")
		}
		fmt.Fprintf(&b, "\nCan be a %s.\n\n", strings.Join(use, " and a "))
		options(&b, f.Options)
		metadata(&b, "Metadata that can be read", f.SourceMetadata)
		metadata(&b, "Metadata that can be written", f.SinkMetadata)
	}
	for _, name := range format.Names() {
		f := format.Lookup(name)
		fmt.Fprintf(&b, "\n## Format `%s`\n\n%s\n\nCarries %s.\n\n", name, f.Doc, f.Changelog)
		options(&b, f.Options)
	}
	const path = "../../docs/connectors.md"
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil || string(have) != b.String() {
		t.Errorf("docs/connectors.md is not what the declarations say (%v): run go test ./connector/all -update", err)
	}
}

func options(b *strings.Builder, specs []option.Spec) {
	if len(specs) == 0 {
		b.WriteString("No options.\n")
		return
	}
	b.WriteString("| option | default | meaning |\n| --- | --- | --- |\n")
	for _, s := range specs {
		name := "`" + s.Name + "`"
		if s.Required {
			name += " *"
		}
		doc := s.Doc
		if len(s.Values) > 0 {
			doc += " One of " + strings.Join(s.Values, ", ") + "."
		}
		if s.Example != "" {
			doc += " Example: `" + s.Example + "`."
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", name, s.Default, strings.ReplaceAll(doc, "|", "\\|"))
	}
}

func metadata(b *strings.Builder, title string, fields []types.Field) {
	if len(fields) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s: ", title)
	for i, f := range fields {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(b, "`%s` %s", f.Name, f.Type)
	}
	b.WriteString(".\n")
}
