"""Ground truth for density regression: every bird is a unit-mass Gaussian."""
import numpy as np
from scipy.ndimage import gaussian_filter


def density_map(points, shape, sigma):
    density = np.zeros(shape, dtype=np.float32)
    for x, y in points:
        bird = np.zeros(shape, dtype=np.float32)
        bird[int(y), int(x)] = 1.0
        density += gaussian_filter(bird, sigma, mode="constant")
    return density
