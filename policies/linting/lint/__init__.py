"""What the linter reads, renders and fixes."""
