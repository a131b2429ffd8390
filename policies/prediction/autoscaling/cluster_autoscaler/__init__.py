"""cluster-autoscaler: which node groups it scales up. Upstream: kubernetes/autoscaler, cluster-autoscaler 1.36.1."""
