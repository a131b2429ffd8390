"""The scheduling core: predicts the decision of kube-scheduler about a Pod. Names and structure follow upstream."""
