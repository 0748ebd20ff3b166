package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/job"
)

// InputVersion says which state of a table a job read: whether another run would read the same can be told by it.
type InputVersion struct {
	// Read is when the reading began: all that there is to say of a database's table, beside its number of rows.
	Read time.Time `json:"read"`
	// Files is how many there were, Size their bytes, Newest when one was changed last, SHA256 a hash of their names, sizes
	// and times of change; of objects of their names and versions.
	Files  int       `json:"files,omitempty"`
	Size   int64     `json:"size,omitempty"`
	Newest time.Time `json:"newest,omitzero"`
	SHA256 string    `json:"sha256,omitempty"`
	// Partitions are the offsets read, by topic and partition.
	Partitions []PartitionRead `json:"partitions,omitempty"`
}

// PartitionRead is what was read of a partition: the offsets from From on, below To.
type PartitionRead struct {
	Partition string `json:"partition"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`
}

// versionOf looks at what a job has read of a table.
func versionOf(t *connector.Table, splits []job.SplitRead, began time.Time) InputVersion {
	v := InputVersion{Read: began}
	switch t.Connector {
	case "kafka", "upsert-kafka":
		for _, s := range splits {
			v.Partitions = append(v.Partitions, PartitionRead{Partition: s.Split, From: s.From, To: s.To})
		}
	case "filesystem":
		h := sha256.New()
		for _, s := range splits {
			v.Files++
			fmt.Fprintf(h, "%s\x00", s.Split)
			info, err := os.Stat(s.Split)
			if err != nil {
				continue // an object, whose name has its version; or gone since
			}
			v.Size += info.Size()
			if m := info.ModTime().UTC(); m.After(v.Newest) {
				v.Newest = m
			}
			fmt.Fprintf(h, "%d %d\x00", info.Size(), info.ModTime().UnixNano())
		}
		v.SHA256 = hex.EncodeToString(h.Sum(nil))
	}
	return v
}
