"""torch.profiler traces: read into columns, then measured."""
