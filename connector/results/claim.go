package results

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// KindJob is the kind of records by which a job says that it begins to write a generation.
const KindJob = "job"

// JobClaim is the document of records of kind "job". A job that has sealed something is known by its progress; until then
// by this.
type JobClaim struct {
	// Place is where the job keeps its checkpoints: what starts from there is the same job. Run tells starts apart.
	Place   string    `json:"place"`
	Lineage string    `json:"lineage"`
	Run     string    `json:"run"`
	Started time.Time `json:"started"`
	// Until is when the claim ends by itself: a job that was given up before it sealed anything keeps nobody away for ever.
	Until time.Time `json:"until"`
}

// ClaimJob notes that a job begins to write a generation that has no progress, and refuses where a job with checkpoints at
// another place has begun to, whose claim has not ended: both would count the same revisions.
func ClaimJob(ctx context.Context, s Store, generation string, c JobClaim) error {
	others := func() ([]JobClaim, error) {
		records, err := s.Records(ctx, "")
		if err != nil {
			return nil, err
		}
		var out []JobClaim
		for _, r := range alive(records, generation) {
			var x JobClaim
			if r.Kind == KindJob && json.Unmarshal(r.Document, &x) == nil && x.Place != c.Place && c.Started.Before(x.Until) {
				out = append(out, x)
			}
		}
		return out, nil
	}
	refuse := func(x JobClaim) error {
		return fmt.Errorf("another job, with checkpoints in %s, began at %s to write generation %s and has not sealed anything yet: "+
			"stop one of the two; if that one was given up, its claim ends at %s", x.Place, x.Started.UTC().Format(time.DateTime), generation, x.Until.UTC().Format(time.DateTime))
	}
	before, err := others()
	if err != nil {
		return err
	}
	if len(before) > 0 {
		return refuse(before[0])
	}
	if err := note(ctx, s, KindJob, generation, c.Started.UnixMilli(), c); err != nil {
		return err
	}
	// Of two that begin at a time both have noted it before they look: the first goes on.
	after, err := others()
	if err != nil {
		return err
	}
	for _, x := range after {
		if cmp.Or(x.Started.Compare(c.Started), cmp.Compare(x.Run, c.Run)) < 0 {
			return refuse(x)
		}
	}
	return nil
}
