"""Lidar surveys on disk: relief bands, feature classes and the dated period of every site."""
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter, sobel


def relief_bands(terrain):
    """Height residuals at three scales, slope, east and north aspect components."""
    dx, dy = sobel(terrain, 1), sobel(terrain, 0)
    slope = np.hypot(dx, dy)
    bands = [terrain - gaussian_filter(terrain, s) for s in (4, 12, 36)]
    bands += [slope, dx / (slope + 1e-3), dy / (slope + 1e-3)]
    return np.stack([(b - b.mean()) / b.std() for b in bands]).astype(np.float32)


def stamp_feature(terrain, feature, period, rng):
    extent = terrain.shape[0]
    kind = rng.integers(1, 4)
    radius = {1: rng.uniform(5, 11), 2: rng.uniform(9, 18), 3: rng.uniform(12, 30)}[int(kind)]
    reach = int(radius * 1.6) + 2
    row, col = rng.integers(reach, extent - reach, 2)
    window = np.s_[row - reach:row + reach, col - reach:col + reach]
    y, x = np.mgrid[-reach:reach, -reach:reach]
    if kind == 1:  # barrow
        distance = np.hypot(x, y) / radius
        shape = np.clip(1 - distance**2, 0, None)
    elif kind == 2:  # ring ditch
        distance = np.abs(np.hypot(x, y) - radius) / 3 + 0.01
        shape = -np.clip(1 - distance, 0, None)
    else:  # hollow way
        angle = rng.uniform(0, np.pi)
        distance = np.abs(x * np.sin(angle) - y * np.cos(angle)) / 4
        shape = -np.clip(1 - distance, 0, None) * (np.hypot(x, y) < radius * 1.4)
    age = rng.integers(1, 5)
    terrain[window] += shape * rng.uniform(0.4, 1.0) / np.sqrt(age)
    feature[window][shape != 0] = kind
    period[window][shape != 0] = age


def ensure_surveys(folder, count, extent, seed):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"survey_{index:02d}.npz" for index in range(count)]
    for index, path in enumerate(paths):
        if path.exists():
            continue
        rng = np.random.default_rng([seed, index])
        noise = rng.standard_normal((3, extent, extent), dtype=np.float32)
        terrain = 60 * gaussian_filter(noise[0], 40) + 4 * gaussian_filter(noise[1], 6) + 0.05 * noise[2]
        feature = np.zeros((extent, extent), np.uint8)
        period = np.zeros((extent, extent), np.uint8)
        for _ in range(extent * extent // 4500):
            stamp_feature(terrain, feature, period, rng)
        np.savez(path, bands=relief_bands(terrain), feature=feature, period=period)
    return paths


class Survey:
    def __init__(self, path):
        self.layers = np.load(path, mmap_mode="r")
        self.extent = self.layers["feature"].shape[0]

    def window(self, row, col, size):
        area = np.s_[row:row + size, col:col + size]
        return (
            self.layers["bands"][(slice(None), *area)],
            self.layers["feature"][area],
            self.layers["period"][area],
        )


class SurveyCatalogue:
    def __init__(self, paths):
        self.surveys = [Survey(path) for path in paths]

    def __len__(self):
        return len(self.surveys)

    def __getitem__(self, index):
        return self.surveys[index]
