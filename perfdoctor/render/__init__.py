"""A Report in, text out: for a terminal, for programs, and the live line of a run."""
