package debezium_test

import (
	"testing"

	"github.com/tidemark-stream/tidemark/format/formattest"
)

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"before":null,"after":{"a":1,"b":"x"},"op":"c","ts_ms":1,"source":{"db":"d"}}`))
	f.Add([]byte(`{"before":{"a":1},"after":{"a":2,"b":"\n"},"op":"u"}` + "\n" +
		`{"op":"d","before":{"a":2}}` + "\n"))
	formattest.Fuzz(f, "debezium-json", "a BIGINT, b STRING", "")
}
