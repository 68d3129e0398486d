"""Batch costs in loader workers, and the benchmark of a loader alone."""
