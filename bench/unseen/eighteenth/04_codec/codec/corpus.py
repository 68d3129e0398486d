"""A folder of int16 recordings; training draws level-matched random segments."""
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset


def write_corpus(root, opt):
    rng = np.random.default_rng(opt.seed)
    n = opt.seconds * opt.rate
    t = np.arange(n, dtype=np.float32) / opt.rate
    for i in range(opt.files):
        f0 = rng.uniform(90, 300)
        glide = (40 * np.sin(2 * np.pi * rng.uniform(0.1, 0.5) * t)).astype(np.float32)
        phase = 2 * np.pi * np.cumsum(f0 + glide, dtype=np.float64).astype(np.float32) / opt.rate
        wav = sum(np.sin(k * phase) / k for k in (1, 2, 3)) * (0.6 + 0.4 * np.sin(2 * np.pi * 3 * t))
        wav += 0.02 * rng.standard_normal(n, dtype=np.float32)
        wav *= rng.uniform(0.05, 0.3)
        np.save(root / f"rec_{i:03d}.npy", np.clip(wav * 32767, -32768, 32767).astype(np.int16))


def block_loudness(wav, rate):
    """Gated mean-square level in dB over 400 ms blocks, 75 % overlap."""
    size = int(0.4 * rate)
    power = np.concatenate([[0.0], np.cumsum(np.diff(wav, prepend=0.0).astype(np.float64) ** 2)])
    blocks = (power[size:] - power[:-size])[:: size // 4] / size
    level = 10 * np.log10(blocks + 1e-10)
    return level[level > max(-70.0, level.mean() - 10)].mean()


class SegmentDataset(Dataset):
    TARGET_DB = -34.0

    def __init__(self, opt):
        self._tmp = tempfile.TemporaryDirectory(prefix="codec_corpus_")
        root = Path(self._tmp.name)
        write_corpus(root, opt)
        self.paths = sorted(root.glob("*.npy"))
        self.opt = opt
        self.length = opt.steps * opt.batch

    def __len__(self):
        return self.length

    def recording(self, path):
        wav = np.load(path).astype(np.float32) / 32768.0
        gain = 10 ** ((self.TARGET_DB - block_loudness(wav, self.opt.rate)) / 20)
        return np.clip(wav * gain, -1, 1).astype(np.float32)

    def __getitem__(self, i):
        rng = np.random.default_rng((self.opt.seed, i))
        wav = self.recording(self.paths[rng.integers(len(self.paths))])
        start = rng.integers(len(wav) - self.opt.segment)
        return torch.from_numpy(wav[start:start + self.opt.segment].copy())[None]
