"""Collectives and gradient sync, timed inside each rank."""
