"""Short windows of torch.profiler."""
