"""Textures, kept compressed in memory (the way the shards of the real set are)."""
import zlib

import numpy as np


def _texture(rng, side):
    y, x = np.mgrid[0:side, 0:side].astype(np.float32) / side
    layers = []
    for _ in range(3):
        a, f, p = rng.uniform(0, np.pi), rng.uniform(3, 25), rng.uniform(0, 6.28)
        layers.append(np.sin(f * (np.cos(a) * x + np.sin(a) * y) + p))
    mix = rng.normal(size=(3, 3)).astype(np.float32)
    img = np.tensordot(np.stack(layers, -1), mix, 1)
    img = (img - img.min()) / (np.ptp(img) + 1e-6) * 255
    return (img + rng.normal(0, 4, img.shape)).clip(0, 255).astype(np.uint8)


class Shards:
    """Row-delta filter followed by deflate."""

    def __init__(self, count, side, seed):
        rng = np.random.default_rng(seed)
        self.side = side
        self.blobs = [self._encode(_texture(rng, side)) for _ in range(count)]

    def __len__(self):
        return len(self.blobs)

    @staticmethod
    def _encode(img):
        delta = np.diff(img, axis=0, prepend=np.zeros_like(img[:1]))
        return zlib.compress(delta.tobytes(), 1)

    def read(self, i):
        flat = np.frombuffer(zlib.decompress(self.blobs[i]), np.uint8)
        delta = flat.reshape(self.side, self.side, 3)
        return np.cumsum(delta, axis=0, dtype=np.uint8)
