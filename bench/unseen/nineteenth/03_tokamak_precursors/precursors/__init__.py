from . import datasets, losses, models, optim  # noqa: F401  (fills the registries)
