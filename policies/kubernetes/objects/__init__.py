"""Immutable views of API objects, with the fields that forewarn reads."""
