package iceberg

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/option"
)

// The properties that this sink reads, by what their values are. Others are kept and not looked at.
var (
	sizeProperties = []string{"target-file-size-bytes", "write.target-file-size-bytes", "write.parquet.row-group-size-bytes", "write.parquet.page-size-bytes", "write.parquet.dict-size-bytes"}
	boolProperties = []string{"write.object-storage.enabled", "write.upsert.enabled"}
	metricsModes   = []string{"none", "counts", "full"}
)

const metricsPrefix = "write.metadata.metrics."

// wrong finds a property whose value means nothing; "" if there is none.
func (p properties) wrong() (key, why, hint string) {
	for _, key := range slices.Sorted(maps.Keys(p.m)) {
		v := p.m[key]
		switch {
		case slices.Contains(sizeProperties, key):
			if n, err := option.ParseSize(v); err != nil || n <= 0 {
				return key, "is no size", "write a number of bytes above 0"
			}
		case slices.Contains(boolProperties, key):
			if !strings.EqualFold(v, "true") && !strings.EqualFold(v, "false") {
				return key, "is neither true nor false", "write one of them"
			}
		case key == metricsPrefix+"default" || strings.HasPrefix(key, metricsPrefix+"column."):
			if _, ok := parseMetrics(v); !ok {
				return key, "is no mode of metrics", "write none, counts, truncate(16) or full"
			}
		}
	}
	return "", "", ""
}

// parseMetrics reads how many characters of a text are kept as its bounds; -1 is all, 0 no bounds.
func parseMetrics(mode string) (length int, ok bool) {
	mode = strings.ToLower(strings.ReplaceAll(mode, " ", ""))
	switch slices.Index(metricsModes, mode) {
	case 0, 1:
		return 0, true
	case 2:
		return -1, true
	}
	rest, begins := strings.CutPrefix(mode, "truncate(")
	digits, ends := strings.CutSuffix(rest, ")")
	n, err := strconv.Atoi(digits)
	return n, begins && ends && err == nil && n > 0
}

// checkOptions refuses options that mean nothing as properties of a table.
func checkOptions(o option.Values) error {
	p := properties{o.All()}
	if key, why, hint := p.wrong(); key != "" {
		return refuse(key, hint, "'%s' = '%s' %s", key, p.m[key], why)
	}
	return nil
}

// checkTable refuses a table with a property that means nothing.
func (p properties) checkTable() error {
	if key, why, hint := p.wrong(); key != "" {
		return connector.Fatalf("its property '%s' is '%s', which %s; %s in the table, or give '%s' in the definition here", key, p.m[key], why, hint, key)
	}
	if _, err := p.parquetOptions(); err != nil {
		return fmt.Errorf("its properties: %w", err)
	}
	return nil
}
