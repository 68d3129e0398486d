"""Masked self-distillation for gas chromatography traces."""
