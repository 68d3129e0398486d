"""Linear-phase filter bank used by the envelope features."""
from dataclasses import dataclass
from typing import Sequence, Tuple

import numpy as np
from scipy import signal


@dataclass(frozen=True)
class Band:
    name: str
    low_hz: float
    high_hz: float


# resonance bands agreed with the maintenance team for the HSK-63 spindles
SPINDLE_BANDS: Tuple[Band, ...] = (
    Band("structure", 400.0, 1100.0),
    Band("housing", 1800.0, 2900.0),
    Band("race", 4200.0, 6100.0),
    Band("sensor", 8300.0, 10800.0),
)


class FirBank:
    """Splits a window into the given bands without phase distortion.

    The taps are designed once; the constant group delay of ``(numtaps - 1) / 2``
    samples is removed so that all bands stay aligned with the tacho.
    """

    def __init__(self, bands: Sequence[Band], fs: float, numtaps: int):
        if numtaps % 2 == 0:
            raise ValueError("numtaps must be odd for a type I filter")
        self.bands = tuple(bands)
        self.delay = (numtaps - 1) // 2
        self.taps = np.stack(
            [
                signal.firwin(numtaps, [b.low_hz, b.high_hz], pass_zero=False, fs=fs, window=("kaiser", 8.0))
                for b in self.bands
            ]
        )

    def __len__(self) -> int:
        return len(self.bands)

    def split(self, x: np.ndarray) -> np.ndarray:
        padded = np.pad(x, (0, self.delay))
        out = np.empty((len(self.bands), x.shape[0]), dtype=np.float32)
        for row, taps in zip(out, self.taps):
            row[:] = signal.oaconvolve(padded, taps)[self.delay : len(padded)]
        return out
