"""Starts the user's command, stands by, and samples the machine meanwhile."""
