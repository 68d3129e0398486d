import numpy as np


class RoomBank:
    """Image-free room responses: direct path, a few early echoes, a diffuse tail."""

    def __init__(self, count, rt60, sr, seed):
        rng = np.random.RandomState(seed)
        self.responses = []
        for _ in range(count):
            t60 = rng.uniform(*rt60)
            n = int(t60 * sr)
            tail = rng.randn(n) * np.exp(-6.9 * np.arange(n) / n)
            tail[: int(0.004 * sr)] = 0
            h = 0.12 * tail
            h[0] = 1.0
            for d in rng.uniform(0.004, 0.04, 5):
                h[int(d * sr)] += rng.uniform(0.2, 0.6) * rng.choice([-1, 1])
            h /= np.sqrt(np.sum(h ** 2))
            self.responses.append(h.astype(np.float32))

    def draw(self, rng):
        return self.responses[rng.integers(len(self.responses))]
