"""Facts on the script: its modules, optimizers, gradients, validation."""
