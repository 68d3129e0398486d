from __future__ import annotations

import numpy as np
import torch
from torch.utils.data import Dataset

from .campaign import Shot
from .registry import DATASETS


@DATASETS.register("forecast_windows")
class ForecastWindows(Dataset):
    """Context windows with their future frames, and distractor frames of the whole campaign."""

    def __init__(
        self,
        shots: list[Shot],
        context: int,
        horizons: list[int],
        n_negatives: int,
        warning_frames: int,
        windows_per_shot: int,
        seed: int,
    ):
        self.shots = shots
        self.context = context
        self.horizons = np.asarray(horizons)
        self.n_negatives = n_negatives
        self.warning_frames = warning_frames
        self.rng = np.random.RandomState(seed)
        self.bank = np.concatenate([shot.frames for shot in shots])
        self.windows = self._place_windows(windows_per_shot)

    def _place_windows(self, per_shot: int) -> list[tuple[int, int]]:
        windows = []
        for number, shot in enumerate(self.shots):
            last = (shot.disruption or len(shot.frames)) - self.context - int(self.horizons.max()) - 1
            starts = self.rng.randint(0, last, size=per_shot)
            if shot.disruption is not None:
                n_late = per_shot // 2
                starts[:n_late] = self.rng.randint(max(0, last - self.warning_frames), last, size=n_late)
            windows.extend((number, int(start)) for start in starts)
        return windows

    def __len__(self) -> int:
        return len(self.windows)

    def _distractors(self) -> np.ndarray:
        picks = self.rng.choice(len(self.bank), size=self.n_negatives, replace=False)
        return self.bank[picks]

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        number, start = self.windows[index]
        shot = self.shots[number]
        stop = start + self.context
        near = shot.disruption is not None and shot.disruption - stop < self.warning_frames
        return {
            "context": torch.from_numpy(shot.frames[start:stop]),
            "future": torch.from_numpy(shot.frames[stop - 1 + self.horizons]),
            "distractors": torch.from_numpy(self._distractors()),
            "precursor": torch.tensor(float(near)),
        }
