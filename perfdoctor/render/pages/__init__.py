"""Pages for a terminal."""
