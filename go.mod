module github.com/tidemark-stream/tidemark

go 1.26

require (
	github.com/dlclark/regexp2/v2 v2.13.0
	github.com/klauspost/compress v1.20.4
	github.com/zeebo/xxh3 v1.1.0
)

require (
	github.com/klauspost/cpuid/v2 v2.2.10 // indirect
	golang.org/x/sys v0.30.0 // indirect
)
