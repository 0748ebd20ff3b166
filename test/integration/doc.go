// Package integration holds the tests that need real systems: Apache Kafka 4.1 and Apache Flink
// 1.20.3, which it starts with the scripts of test/peers on ports of its own and stops again.
//
//	TIDEMARK_INTEGRATION=1 go test -v -count=1 -timeout 25m ./test/integration
//
// Without the variable the tests are skipped, and say so. TIDEMARK_KAFKA (host:port, an instance of
// test/peers/kafka) and TIDEMARK_FLINK_JOBMANAGER (the address of an instance of test/peers/flink)
// name systems that run already; they are then left running. What is produced and consumed goes
// through Kafka's own command line tools, and Tidemark runs as the command that users have.
package integration
