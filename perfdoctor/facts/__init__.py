"""Turns records and traces into typed facts; pure functions of what was read."""
