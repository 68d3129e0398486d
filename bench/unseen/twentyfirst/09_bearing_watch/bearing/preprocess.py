"""Signal conditioning steps, put together by name from the run config."""
from typing import Callable, Dict, List, Sequence

import numpy as np

from .filters import SPINDLE_BANDS, FirBank

STEPS: Dict[str, Callable[..., "Step"]] = {}


def step(name: str):
    def register(cls):
        STEPS[name] = cls
        return cls

    return register


class Step:
    def __init__(self, cfg):
        self.cfg = cfg

    def __call__(self, x: np.ndarray) -> np.ndarray:
        raise NotImplementedError


@step("counts_to_g")
class CountsToG(Step):
    """DAQ counts to acceleration in g."""

    def __call__(self, x):
        return x.astype(np.float32) * (self.cfg.full_scale_g / 32768.0)


@step("detrend")
class Detrend(Step):
    def __call__(self, x):
        return x - x.mean(dtype=np.float64).astype(np.float32)


@step("band_envelope")
class BandEnvelope(Step):
    """Rectified band signals, averaged down to the envelope rate."""

    def __init__(self, cfg):
        super().__init__(cfg)
        self.bank = FirBank(SPINDLE_BANDS, fs=cfg.fs, numtaps=cfg.numtaps)
        self.hop = cfg.envelope_hop

    def __call__(self, x):
        bands = np.abs(self.bank.split(x))
        frames = bands.shape[1] // self.hop
        return bands[:, : frames * self.hop].reshape(len(self.bank), frames, self.hop).mean(axis=2)


@step("log")
class LogCompress(Step):
    def __call__(self, x):
        return np.log(x + self.cfg.log_floor)


@step("standardize")
class Standardize(Step):
    """Per band; the level of each band is kept as a weak offset."""

    def __call__(self, x):
        mean = x.mean(axis=1, keepdims=True)
        std = x.std(axis=1, keepdims=True)
        return (x - mean) / (std + 1e-4) + 0.1 * mean


class Pipeline:
    def __init__(self, steps: Sequence[Step]):
        self.steps: List[Step] = list(steps)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        for s in self.steps:
            x = s(x)
        return np.ascontiguousarray(x, dtype=np.float32)

    def __repr__(self):
        return " -> ".join(type(s).__name__ for s in self.steps)


def build_pipeline(cfg) -> Pipeline:
    unknown = [n for n in cfg.steps if n not in STEPS]
    if unknown:
        raise KeyError(f"unknown preprocessing steps {unknown}, have {sorted(STEPS)}")
    return Pipeline([STEPS[n](cfg) for n in cfg.steps])
