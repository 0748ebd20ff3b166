// Package formattest holds what tests of formats share: golden files of records and rows, and a
// suite of properties that every format must have.
package formattest
