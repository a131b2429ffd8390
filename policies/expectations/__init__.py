"""Statements about what a cluster does when something happens, and whether they hold."""
