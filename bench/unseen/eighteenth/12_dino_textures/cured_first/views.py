"""Multi-crop recipe: every view is a small chain of callables that end in a (3, out, out) array."""
from functools import partial

import numpy as np


class Sample:
    """What a chain starts from; the pixels are only touched by chains that need them."""

    def __init__(self, fetch):
        self._fetch, self._pixels = fetch, None

    @property
    def pixels(self):
        if self._pixels is None:
            self._pixels = self._fetch()
        return self._pixels


def resized_crop(src, rng, out, area):
    img = src.pixels
    side = img.shape[0]
    edge = max(int(side * np.sqrt(rng.uniform(*area))), out // 2)
    top, left = rng.integers(0, side - edge + 1, 2)
    at = (np.arange(out) * edge / out).astype(np.int64)
    return img[top + at][:, left + at].astype(np.float32) / 255.0


def flip(x, rng, p=0.5):
    return x[:, ::-1] if rng.random() < p else x


def jitter(x, rng, strength=0.3):
    gain = rng.uniform(1 - strength, 1 + strength, 3).astype(np.float32)
    return x * gain + np.float32(rng.uniform(-0.1, 0.1))


def blur(x, rng, p=0.5):
    if rng.random() >= p:
        return x
    x = (np.roll(x, 1, 0) + 2 * x + np.roll(x, -1, 0)) / 4
    return (np.roll(x, 1, 1) + 2 * x + np.roll(x, -1, 1)) / 4


class View:
    def __init__(self, name, out, area, blur_p):
        self.name = name
        self.chain = [partial(resized_crop, out=out, area=area), flip, jitter, partial(blur, p=blur_p)]

    def __call__(self, sample, rng):
        x = sample
        for stage in self.chain:
            x = stage(x, rng)
        return np.ascontiguousarray(((x - 0.5) / 0.25).transpose(2, 0, 1))


class MultiCrop:
    def __init__(self, specs):
        self.views = [View(s["name"], s["out"], s["area"], s["blur"])
                      for s in specs for _ in range(s["count"])]

    def __call__(self, sample, rng):
        return [view(sample, rng) for view in self.views]
