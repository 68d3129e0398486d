"""Tiny name -> class registries; every component is built from its config block."""


class Registry:
    def __init__(self, kind):
        self.kind = kind
        self._items = {}

    def register(self, name):
        def deco(obj):
            if name in self._items:
                raise KeyError(f"{self.kind} {name!r} registered twice")
            self._items[name] = obj
            return obj
        return deco

    def build(self, cfg, **extra):
        cfg = dict(cfg)
        name = cfg.pop("name")
        if name not in self._items:
            raise KeyError(f"unknown {self.kind} {name!r}, have {sorted(self._items)}")
        return self._items[name](**cfg, **extra)


DATASETS = Registry("dataset")
MODELS = Registry("model")
LOSSES = Registry("loss")
