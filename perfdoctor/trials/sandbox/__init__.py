"""Keeps the user's files as they are while a trial runs."""
