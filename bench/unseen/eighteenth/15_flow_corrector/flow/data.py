"""Reference trajectories from a dealiased spectral integrator on a finer grid."""
import numpy as np
import torch


class ReferenceBank:
    def __init__(self, grid, nu, dt, seed, runs=24, frames=40, refine=2, substeps=2):
        self.rng = np.random.default_rng(seed)
        n = grid.n * refine
        k = np.fft.fftfreq(n, 1.0 / n)
        self.kx, self.ky = np.meshgrid(k, k)
        self.k2 = self.kx ** 2 + self.ky ** 2
        self.inv = np.where(self.k2 > 0, 1.0 / np.maximum(self.k2, 1e-9), 0.0)
        self.keep = (np.abs(self.kx) < n / 3) & (np.abs(self.ky) < n / 3)
        what = self._initial(runs, n)
        rows = []
        for _ in range(frames):
            rows.append(np.fft.ifft2(what).real[:, ::refine, ::refine])
            for _ in range(substeps):
                what = self._advance(what, nu, dt / substeps)
        self.frames = torch.from_numpy(np.stack(rows, 1).astype(np.float32))

    def _initial(self, runs, n):
        noise = np.fft.fft2(self.rng.normal(size=(runs, n, n)))
        shape = noise * np.exp(-((np.sqrt(self.k2) - 4) / 1.5) ** 2)
        w = np.fft.ifft2(shape).real
        return np.fft.fft2(2.5 * w / w.std((1, 2), keepdims=True))

    def _slope(self, what):
        psi = what * self.inv
        inv = lambda f: np.fft.ifft2(f).real
        u, v = inv(1j * self.ky * psi), inv(-1j * self.kx * psi)
        conv = u * inv(1j * self.kx * what) + v * inv(1j * self.ky * what)
        return -np.fft.fft2(conv) * self.keep

    def _advance(self, what, nu, dt):
        half = what + 0.5 * dt * self._slope(what)
        return (what + dt * self._slope(half)) / (1 + nu * dt * self.k2)

    def draw(self, batch, unroll):
        runs, frames = self.frames.shape[:2]
        r = self.rng.integers(0, runs, batch)
        t = self.rng.integers(0, frames - unroll, batch)
        return torch.stack([self.frames[i, j:j + unroll + 1] for i, j in zip(r, t)])
