// Package version says which build this is.
package version

import "runtime/debug"

// String is the module's version, or the commit that a development build was made from.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && (v == "" || v == "(devel)") {
			v = "development " + s.Value[:min(12, len(s.Value))]
		}
	}
	return v
}
