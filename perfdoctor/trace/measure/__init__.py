"""Turns the columns of a trace into figures."""
