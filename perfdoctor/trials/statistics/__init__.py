"""Paired speedups, equal losses, and the verdict on a variant."""
