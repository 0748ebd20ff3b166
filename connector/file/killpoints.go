//go:build killpoints

package file

import "github.com/tidemark-stream/tidemark/object"

// In the build that tests kill, uploads are begun for small objects too, and parts are as short as a
// store allows.
func init() { inlineBytes, partBytes = 4<<10, object.LeastPart }
