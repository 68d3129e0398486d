class Registry:
    def __init__(self, name):
        self.name = name
        self._items = {}

    def register(self, key):
        def wrap(cls):
            self._items[key] = cls
            return cls
        return wrap

    def build(self, cfg, **extra):
        cfg = dict(cfg)
        kind = cfg.pop("type")
        try:
            cls = self._items[kind]
        except KeyError:
            raise KeyError(f"{kind!r} is not a registered {self.name}; have {sorted(self._items)}") from None
        return cls(**cfg, **extra)


DATASETS = Registry("dataset")
MODELS = Registry("model")
HOOKS = Registry("hook")
