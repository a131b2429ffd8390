"""Frozen views of the API objects that are read, and of what is asked about them."""
