"""What is asked of a trial: tweaks, values, metric, numbers of ranks."""
