"""Versions of manifests: git revisions or directories, with the output of helm and kustomize."""
