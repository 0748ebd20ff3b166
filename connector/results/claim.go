package results

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
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
	run := c.Run
	others := func() ([]JobClaim, error) {
		records, err := s.Records(ctx, "")
		if err != nil {
			return nil, err
		}
		runs := map[string]JobClaim{} // a claim that was taken back ends when it began
		for _, r := range alive(records, generation) {
			var x JobClaim
			if r.Kind != KindJob || json.Unmarshal(r.Document, &x) != nil {
				continue
			}
			if was, ok := runs[x.Run]; !ok || x.Until.Before(was.Until) {
				runs[x.Run] = x
			}
		}
		for run, x := range runs {
			if x.Place == c.Place || !c.Started.Before(x.Until) {
				delete(runs, run)
			}
		}
		return slices.SortedFunc(maps.Values(runs), func(a, b JobClaim) int { return a.Started.Compare(b.Started) }), nil
	}
	refuse := func(x JobClaim) error {
		return fmt.Errorf("another job, with checkpoints in %s, began at %s to write generation %s and has not sealed anything yet: "+
			"stop one of the two; if that one was given up, its claim ends at %s", x.Place, x.Started.UTC().Format(time.DateTime), generation, x.Until.UTC().Format(time.DateTime))
	}
	for try := 0; ; try++ {
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
		// Who finds another one behind his own note gives way, as that one may have looked before it. Of two that do so
		// at a time both give way, and try again, not at the same moment.
		after, err := others()
		if err != nil || len(after) == 0 {
			return err
		}
		ended := c
		ended.Until = c.Started
		if err := note(ctx, s, KindJob, generation, c.Started.UnixMilli(), ended); err != nil {
			return err
		}
		if try == claimTries {
			return refuse(after[0])
		}
		if !connector.Pause(ctx, time.Duration(50+rand.IntN(500))*time.Millisecond) {
			return ctx.Err()
		}
		c.Run = fmt.Sprintf("%s.%d", run, try+1)
	}
}

// claimTries is how often a job tries again to begin a generation that another one begins at the same time.
const claimTries = 4
