package catalog

import (
	"maps"
	"strings"
	"testing"
	"time"
)

func TestConfigTypedValues(t *testing.T) {
	c := NewConfig()
	if c.BatchMode() || c.Int(KeyParallelism) != 1 || c.Duration(KeyIdleTimeout) != 30*time.Second {
		t.Fatal("wrong defaults")
	}
	for k, v := range map[string]string{
		KeyRuntimeMode: "BATCH", KeyParallelism: "3", KeyStateTTL: "1 h", "some.flink.key": "x",
		"tidemark.table.orders.dead-letter.path": "dlq/",
	} {
		if err := c.Set(k, v); err != nil {
			t.Fatal(err)
		}
	}
	if !c.BatchMode() || c.Int(KeyParallelism) != 3 || c.Duration(KeyStateTTL) != time.Hour ||
		c.Get("some.flink.key") != "x" {
		t.Fatalf("values are lost: %v", c.All())
	}
	orders := &Table{Path: []string{"c", "d", "orders"}, Options: map[string]string{"connector": "x", "format": "json"}}
	for _, kv := range [][2]string{{"tidemark.table.orders.format", "csv"}, {"tidemark.override.orders.connector", ""}} {
		if err := c.Set(kv[0], kv[1]); err != nil {
			t.Fatal(err)
		}
	}
	got := c.TableOptions(orders, map[string]string{"path": "p"})
	want := map[string]string{"dead-letter.path": "dlq/", "format": "json", "path": "p"}
	if !maps.Equal(got, want) {
		t.Fatalf("options are %v, want %v", got, want)
	}
	if c.Env().QueryStart.IsZero() {
		t.Fatal("batch mode must fix the time of the query")
	}
	c.Reset(KeyParallelism)
	if c.Int(KeyParallelism) != 1 || !c.BatchMode() {
		t.Fatal("RESET of one key")
	}
	c.Reset("")
	if c.BatchMode() || len(c.All()) != 0 {
		t.Fatal("RESET of all keys")
	}
}

func TestConfigRefuses(t *testing.T) {
	for _, x := range []struct{ key, value, want string }{
		{KeyParallelism, "many", "whole number"},
		{KeyRuntimeMode, "fast", "streaming, batch"},
		{KeyRuntimeMode, "automatic", "streaming or batch"},
		{KeyStateTTL, "soon", "number and a unit"},
		{KeyZone, "Mars/Olympus", "unknown time zone"},
		{"tidemark.generatoin", "g", "did you mean 'tidemark.generation'"},
		{"tidemark.emit.out.early-fires", "1 s", "unknown key"},
	} {
		err := NewConfig().Set(x.key, x.value)
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("SET %s = %s: %v, want %q", x.key, x.value, err, x.want)
		}
	}
}

func TestParseZone(t *testing.T) {
	for _, x := range []struct {
		in, name string
		offset   int
	}{
		{"UTC", "UTC", 0}, {"GMT+02:00", "Etc/GMT-2", 7200}, {"GMT-03:00", "Etc/GMT+3", -10800},
		{"+5:30", "+05:30", 19800}, {"UTC-0130", "-01:30", -5400}, {"GMT+8", "Etc/GMT-8", 28800},
		{"Asia/Shanghai", "Asia/Shanghai", 28800},
	} {
		z, err := ParseZone(x.in, time.UTC)
		if err != nil {
			t.Errorf("%s: %v", x.in, err)
			continue
		}
		if _, off := time.Unix(0, 0).In(z).Zone(); z.String() != x.name || off != x.offset {
			t.Errorf("%s: %s, %d seconds", x.in, z, off)
		}
	}
	for _, in := range []string{"", "+", "GMT+25", "+02:", "+02:75", "local"} {
		if z, err := ParseZone(in, time.UTC); err == nil {
			t.Errorf("%q is read as %s", in, z)
		}
	}
}
