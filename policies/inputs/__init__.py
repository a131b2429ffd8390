"""Manifests, snapshots, revisions and live clusters as objects."""
