// Package kill kills jobs: the real command, writing into a real Kafka, a real PostgreSQL, files and
// with checkpoints in a folder and in S3, is killed hundreds of times at chosen places while its
// input grows. In the end the multiset of the rows it has written must be that of a run over the
// same input which nobody has disturbed.
//
//	TIDEMARK_INTEGRATION=1 TIDEMARK_KILLS=200 go test -v -count=1 -timeout 25m ./test/kill
//
// Without TIDEMARK_INTEGRATION the tests are skipped, and say so. TIDEMARK_KILLS is how often the
// job of each test is killed; 40 without it. The servers are started with the scripts of test/peers on
// ports of their own, and stopped and wiped at the end. README.md has the places and the figures.
package kill
