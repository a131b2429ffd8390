"""Autoscalers that add nodes: cluster-autoscaler and Karpenter, behind one interface."""
