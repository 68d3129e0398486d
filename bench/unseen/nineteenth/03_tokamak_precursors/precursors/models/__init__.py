from .forecaster import OrthogonalForecaster  # noqa: F401
