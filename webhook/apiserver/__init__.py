"""API server client for raw JSON: lists in pages, watches line by line, no client models."""
