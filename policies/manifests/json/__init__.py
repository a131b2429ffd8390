"""JSON text: its values as kubectl reads them, and where in the text they are."""
