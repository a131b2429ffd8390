"""Devices (DRA): ResourceClaims, device pools, CEL selectors, and the allocation of claims on a node."""
