"""YAML text: its nodes with positions, and their values as kubectl reads them."""
