from dataclasses import dataclass


@dataclass
class Settings:
    seed: int = 23
    vocabulary: int = 6000
    topics: int = 60
    profiles: int = 4000
    profile_tokens: int = 64
    posting_tokens: int = 32
    candidates: int = 6
    width: int = 128
    layers: int = 2
    heads: int = 4
    temperature: float = 0.08
    batch: int = 16
    steps: int = 280
    lr: float = 8e-4
