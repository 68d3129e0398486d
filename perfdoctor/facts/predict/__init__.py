"""The step model, and what it takes from a machine."""
