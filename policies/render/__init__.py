"""Findings and predictions as text, for people and for programs."""
