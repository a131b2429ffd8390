"""Devices (DRA): claims, pools, CEL selectors, and how claims are allocated on a node."""
