"""The run directory and the ranks of a job, read into typed records."""
