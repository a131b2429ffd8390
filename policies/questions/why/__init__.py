"""Causes of Pending and terminated Pods: the results of `forewarn why`."""
