// Package spell reads and writes single values as Flink's text formats spell them, which is how the
// Java classes under them do: numbers as Long.parseLong, Double.parseDouble and BigDecimal read
// them, times as java.time's formatters, bytes as Base64.
package spell
