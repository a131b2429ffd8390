"""Questions about a cluster: what-if, why, headroom, classes, expectations."""
