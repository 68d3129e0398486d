"""Facts on devices and on windows of torch.profiler."""
