"""Live lines of a run and of a trial."""
