"""Rules about the text of files."""
