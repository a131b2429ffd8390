"""JSON text: its values as kubectl reads them, and their positions."""
