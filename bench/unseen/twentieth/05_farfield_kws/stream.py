import numpy as np
import torch
from torch.utils.data import IterableDataset


class ShardStream(IterableDataset):
    """Endless stream over shards with a shuffle buffer and far-field simulation."""

    def __init__(self, manifest, rooms, cfg):
        self.paths = [m["path"] for m in manifest]
        self.rooms = rooms
        self.buffer_size = cfg["shuffle_buffer"]
        self.p_room = cfg["room"]["probability"]
        self.snr = cfg["snr_db"]
        self.seed = cfg["seed"]

    def _raw(self, rng):
        while True:
            for i in rng.permutation(len(self.paths)):
                with np.load(self.paths[i]) as z:
                    audio, labels = z["audio"], z["labels"]
                for a, k in zip(audio, labels):
                    yield a, int(k)

    def _shuffled(self, rng):
        buf = []
        for item in self._raw(rng):
            if len(buf) < self.buffer_size:
                buf.append(item)
                continue
            j = rng.integers(self.buffer_size)
            out, buf[j] = buf[j], item
            yield out

    def _far_field(self, wave, rng):
        h = self.rooms.draw(rng)
        wet = np.convolve(wave, h)[: len(wave)]
        level = np.sqrt(np.mean(wave ** 2) / (np.mean(wet ** 2) + 1e-9))
        return wet * level

    def _add_noise(self, wave, rng):
        noise = rng.standard_normal(len(wave), dtype=np.float32)
        snr = rng.uniform(*self.snr)
        gain = np.sqrt(np.mean(wave ** 2) / 10 ** (snr / 10))
        return wave + gain * noise

    def __iter__(self):
        rng = np.random.default_rng(self.seed)
        for pcm, label in self._shuffled(rng):
            wave = pcm.astype(np.float32) / 32768.0
            if rng.random() < self.p_room:
                wave = self._far_field(wave, rng)
            wave = self._add_noise(wave, rng)
            shift = rng.integers(-1600, 1600)
            wave = np.roll(wave, shift)
            yield torch.from_numpy(wave.astype(np.float32)), label
