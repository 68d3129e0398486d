"""Public JSON documents."""
