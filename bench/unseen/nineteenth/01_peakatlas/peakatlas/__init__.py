"""Latent-variable models of single-cell chromatin accessibility."""

__version__ = "0.4.1"
