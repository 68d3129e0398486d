"""Facts on the host: cores, memory, disk, network, stacks."""
