"""Who goes first on a node: the kubelet's side of priority, in which no budget has a say."""
