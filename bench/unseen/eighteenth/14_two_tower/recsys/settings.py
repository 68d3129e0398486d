from types import SimpleNamespace

DEFAULTS = dict(
    seed=4, users=3000, items=5000, interactions=60000, batch=192, negatives=8, history=12,
    text_dim=192, numeric_dim=4, width=384, dim=96, temperature=0.08, lr=1e-3,
    steps=360, report=40, workers=1, cache_rows=20000, popularity=0.75,
)


def load(overrides):
    cfg = dict(DEFAULTS)
    for item in overrides:
        key, value = item.split("=", 1)
        cfg[key] = type(cfg[key])(value)
    return SimpleNamespace(**cfg)
