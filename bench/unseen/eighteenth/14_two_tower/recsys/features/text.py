import zlib
from math import sqrt

import numpy as np


def grams(title, n=3):
    padded = f"#{title}#"
    return (padded[i:i + n] for i in range(len(padded) - n + 1))


def hashed(title, dim):
    """Signed hashing of character trigrams, unit length."""
    row = np.zeros(dim, np.float32)
    for g in grams(title):
        h = zlib.crc32(g.encode())
        row[h % dim] += 1.0 if h & 0x10000 else -1.0
    return row / (sqrt(float(row @ row)) + 1e-6)
