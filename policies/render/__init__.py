"""Findings and predictions as text, for users and for programs."""
