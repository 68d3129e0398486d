"""Reads a trace file into columns."""
