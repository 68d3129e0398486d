"""Probability-of-default model for the retail book."""
