package kafka

import (
	"maps"
	"strings"
	"testing"
)

func TestParseOffsets(t *testing.T) {
	for text, want := range map[string]map[int32]int64{
		"partition:0,offset:42":                              {0: 42},
		" partition: 0 , offset: 42 ; partition:3,offset:0;": {0: 42, 3: 0},
		"":                               {},
		"partition:0":                    nil,
		"partition:0,offset:-1":          nil,
		"partition:-1,offset:1":          nil,
		"partition:x,offset:1":           nil,
		"offset:1,partition:0":           nil,
		"partition:0,offset:1,2":         nil,
		"partition:99999999999,offset:1": nil,
	} {
		got, err := parseOffsets(text)
		if (err == nil) != (want != nil) || !maps.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func FuzzParseOffsets(f *testing.F) {
	f.Add("partition:0,offset:42;partition:1,offset:300")
	f.Add(";;partition:,offset:")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseOffsets(text)
		for p, o := range got {
			if p < 0 || o < 0 {
				t.Errorf("%q: partition %d, offset %d", text, p, o)
			}
		}
		if err == nil && len(got) == 0 && strings.Trim(text, "; \t\n\r\v\f\u0085\u00a0") != "" && strings.ContainsAny(text, "0123456789") {
			t.Errorf("%q is taken for nothing", text)
		}
	})
}

func FuzzSplitID(f *testing.F) {
	f.Add("a-b", int32(7))
	f.Fuzz(func(t *testing.T, topic string, p int32) {
		if p < 0 {
			p = -(p + 1)
		}
		if gotTopic, got, ok := parseSplitID(splitID(topic, p)); !ok || gotTopic != topic || got != p {
			t.Errorf("%q, %d became %q, %d, %v", topic, p, gotTopic, got, ok)
		}
	})
}

// FuzzSecurity has properties that people paste: no text may crash the reading of a login.
func FuzzSecurity(f *testing.F) {
	f.Add("SASL_PLAINTEXT", "PLAIN", `org.apache.kafka.common.security.plain.PlainLoginModule required username="a\"b" password="c";`)
	f.Add("SASL_SSL", "SCRAM-SHA-256", `username="a" password=""`)
	f.Add("SSL", "", "")
	f.Fuzz(func(t *testing.T, protocol, mechanism, jaas string) {
		p := properties{"security.protocol": protocol, "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
		opts, err := p.security()
		if err == nil && len(opts) == 0 && !strings.EqualFold(protocol, "PLAINTEXT") {
			t.Errorf("protocol %q needs no options", protocol)
		}
	})
}
