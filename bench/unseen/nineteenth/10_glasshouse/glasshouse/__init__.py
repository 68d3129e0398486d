"""Probabilistic climate forecasts for glasshouse compartments."""
