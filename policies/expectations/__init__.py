"""Expectations: statements about a cluster's reaction to an event, and their evaluation."""
