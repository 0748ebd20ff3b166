package plan

// Fingerprint identifies a node between two plans.
type Fingerprint struct {
	// Computes is a hash of what the node itself computes: its operator with the columns by
	// position and type, but neither names of columns nor what parallelism it runs at.
	Computes string
	// Fed is a hash of Computes and of the Fed of all inputs.
	Fed string
	// Describe says in words what Computes is a hash of.
	Describe string
}
