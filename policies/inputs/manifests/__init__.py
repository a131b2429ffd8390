"""YAML and JSON text as kubectl reads it: objects with the position of every field, and problems of the text."""
