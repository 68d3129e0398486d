"""Calls of torch's functions and of modules, looked at in a few steps of a run."""
