"""A batch of point robots that chase a moving beacon and avoid a drone, seen from above."""
import numpy as np


class VecArena:
    """All environments advance together; every array has the environment as its first axis."""

    MOVES = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], dtype=np.float32)

    def __init__(self, n, grid=24, episode_len=60, seed=0):
        self.n, self.grid, self.episode_len = n, grid, episode_len
        self.rng = np.random.default_rng(seed)
        self.axis = np.linspace(-1, 1, grid, dtype=np.float32)
        self.pos = np.zeros((n, 2), np.float32)
        self.vel = np.zeros((n, 2), np.float32)
        self.goal = np.zeros((n, 2), np.float32)
        self.drone = np.zeros((n, 2), np.float32)
        self.phase = np.zeros(n, np.float32)
        self.clock = np.zeros(n, np.int64)

    @property
    def num_actions(self):
        return len(self.MOVES)

    @property
    def obs_shape(self):
        return (3, self.grid, self.grid)

    def reset(self):
        self._respawn(np.arange(self.n))
        self.clock[:] = self.rng.integers(0, self.episode_len, self.n)
        return self._render()

    def _respawn(self, idx):
        k = len(idx)
        self.pos[idx] = self.rng.uniform(-0.9, 0.9, (k, 2))
        self.goal[idx] = self.rng.uniform(-0.9, 0.9, (k, 2))
        self.drone[idx] = self.rng.uniform(-0.9, 0.9, (k, 2))
        self.phase[idx] = self.rng.uniform(0, 6.28, k)
        self.vel[idx] = 0.0
        self.clock[idx] = 0

    def _blob(self, xy, sharp=60.0):
        gx = np.exp(-sharp * (self.axis[None] - xy[:, :1]) ** 2)
        gy = np.exp(-sharp * (self.axis[None] - xy[:, 1:]) ** 2)
        return gx[:, :, None] * gy[:, None, :]

    def _render(self):
        return np.stack([self._blob(self.pos), self._blob(self.goal), self._blob(self.drone)], 1)

    def step(self, action):
        self.vel = 0.8 * self.vel + 0.03 * self.MOVES[action]
        self.pos = np.clip(self.pos + self.vel, -1, 1)
        self.phase += 0.1
        drift = np.stack([np.cos(self.phase), np.sin(self.phase)], 1).astype(np.float32)
        self.goal = np.clip(self.goal + 0.01 * drift, -1, 1)
        chase = self.pos - self.drone
        self.drone += 0.012 * chase / (np.linalg.norm(chase, axis=1, keepdims=True) + 1e-6)
        dist = np.linalg.norm(self.pos - self.goal, axis=1)
        danger = np.linalg.norm(self.pos - self.drone, axis=1)
        reward = -0.1 * dist + (dist < 0.15) - 0.5 * (danger < 0.12)
        self.clock += 1
        done = self.clock >= self.episode_len
        if done.any():
            self._respawn(np.flatnonzero(done))
        return self._render(), reward.astype(np.float32), done
