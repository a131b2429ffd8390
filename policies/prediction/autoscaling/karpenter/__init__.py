"""Karpenter: which nodes its provisioner adds. Upstream: sigs.k8s.io/karpenter v1.14.0."""
