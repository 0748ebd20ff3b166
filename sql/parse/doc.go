// Package parse turns SQL text into the tree of package ast: the whole of Apache
// Flink 1.20's SQL, the short forms of Flink 2 (table functions without TABLE(),
// QUALIFY, named arguments, materialized tables and the like), and nothing that
// would change the meaning of a text that Flink accepts.
//
// The lexer cuts the text into tokens once; the parser walks them by recursive
// descent, and expressions by operator precedence. Both are hand-written for the
// sake of positions and messages: an error says what was found, what was
// expected, and what a common slip needs. The first error stops the parser: it
// is kept, and the parser jumps to the end of input, where every loop ends.
//
// Nesting is limited (see depthMax), as is the length of a chain of operators,
// so that neither the parser nor whoever walks the tree by recursion runs out of
// stack.
//
// All functions may be called from any goroutine.
//
// Stability: internal use.
package parse
