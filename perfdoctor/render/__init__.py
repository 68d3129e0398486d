"""A result in, text out: for a terminal and for programs."""
