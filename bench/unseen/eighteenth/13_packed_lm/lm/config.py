from dataclasses import dataclass, fields


@dataclass
class Settings:
    seed: int = 11
    documents: int = 16000
    vocab: int = 2048
    block: int = 192
    batch: int = 12
    layers: int = 2
    dim: int = 96
    heads: int = 4
    steps: int = 340
    warmup: int = 20
    lr: float = 1e-3
    decay: float = 0.05
    report: int = 40
    sample_every: int = 170

    @classmethod
    def from_overrides(cls, argv):
        kinds = {f.name: f.type for f in fields(cls)}
        picked = {}
        for arg in argv:
            key, _, value = arg.partition("=")
            if key not in kinds:
                raise SystemExit(f"unknown setting {key!r}")
            picked[key] = kinds[key](value)
        return cls(**picked)
