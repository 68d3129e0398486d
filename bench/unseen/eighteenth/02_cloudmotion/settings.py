from dataclasses import asdict, dataclass, field, fields


@dataclass
class DataSettings:
    sequences: int = 160
    size: int = 64
    past: int = 5
    future: int = 5
    batch: int = 6


@dataclass
class NetSettings:
    hidden: int = 12
    levels: int = 1


@dataclass
class Settings:
    steps: int = 300
    lr: float = 1.5e-3
    ema: float = 0.99
    log_every: int = 40
    seed: int = 11
    data: DataSettings = field(default_factory=DataSettings)
    net: NetSettings = field(default_factory=NetSettings)

    @classmethod
    def add_arguments(cls, parser):
        for f in fields(cls):
            if f.type in (int, float):
                parser.add_argument(f"--{f.name.replace('_', '-')}", type=f.type, default=f.default)
        return parser

    @classmethod
    def from_args(cls, ns):
        return cls(**{k: v for k, v in vars(ns).items() if k in {f.name for f in fields(cls)}})

    def describe(self):
        return ", ".join(f"{k}={v}" for k, v in asdict(self).items())
