"""Finds lines and loops in the user's source."""
