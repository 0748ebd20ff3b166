package tidemark_test

import (
	"context"
	"fmt"
	"log"

	"github.com/tidemark-stream/tidemark"
)

// A program that counts in event time: the rows of an hour are complete when the watermark has
// passed its end.
func Example() {
	ctx := context.Background()
	engine, err := tidemark.Open(tidemark.Options{})
	if err != nil {
		log.Fatal(err)
	}
	rows, err := engine.Query(ctx, `
		CREATE TABLE departures (
			origin STRING, distance BIGINT, departed_at TIMESTAMP(3),
			WATERMARK FOR departed_at AS departed_at - INTERVAL '5' MINUTE
		) WITH ('connector' = 'filesystem', 'format' = 'json',
			'path' = 'examples/flights/data/departures-2013-01.jsonl.gz');
		SELECT window_start, origin, COUNT(*) AS departures, SUM(distance) AS miles
		FROM TABLE(TUMBLE(TABLE departures, DESCRIPTOR(departed_at), INTERVAL '1' HOUR))
		WHERE departed_at < TIMESTAMP '2013-01-01 11:00:00'
		GROUP BY window_start, window_end, origin`)
	if err != nil {
		log.Fatal(err)
	}
	for rows.Next() {
		var hour, origin string
		var departures, miles int64
		if err := rows.Scan(&hour, &origin, &departures, &miles); err != nil {
			log.Fatal(err)
		}
		fmt.Println(hour, origin, departures, miles)
	}
	if err := rows.Close(); err != nil {
		log.Fatal(err)
	}
	// Unordered output:
	// 2013-01-01 10:00:00.000 EWR 5 7976
	// 2013-01-01 10:00:00.000 LGA 5 4529
	// 2013-01-01 10:00:00.000 JFK 7 8304
}
