from collections import deque

import numpy as np


class Wrapper:
    def __init__(self, env):
        self.env = env

    def __getattr__(self, name):
        return getattr(self.env, name)

    def reset(self):
        return self.env.reset()

    def step(self, action):
        return self.env.step(action)


class EpisodeStats(Wrapper):
    """Remembers the returns of the latest finished episodes."""

    def __init__(self, env, keep=100):
        super().__init__(env)
        self.running = np.zeros(env.n, np.float32)
        self.finished = deque(maxlen=keep)

    def step(self, action):
        obs, reward, done = self.env.step(action)
        self.running += reward
        for i in np.flatnonzero(done):
            self.finished.append(float(self.running[i]))
            self.running[i] = 0.0
        return obs, reward, done

    def summary(self):
        return float(np.mean(list(self.finished))) if self.finished else float("nan")


class RewardScale(Wrapper):
    """Divides rewards by the running deviation of the discounted return (Welford, batched)."""

    def __init__(self, env, gamma):
        super().__init__(env)
        self.gamma = gamma
        self.ret = np.zeros(env.n, np.float64)
        self.count, self.mean, self.m2 = 1e-4, 0.0, 0.0

    def _absorb(self, x):
        n, mu, m2 = x.size, x.mean(), x.var() * x.size
        delta, total = mu - self.mean, self.count + x.size
        self.m2 += m2 + delta ** 2 * self.count * n / total
        self.mean += delta * n / total
        self.count = total

    def step(self, action):
        obs, reward, done = self.env.step(action)
        self.ret = self.ret * self.gamma + reward
        self._absorb(self.ret)
        self.ret[done] = 0.0
        scale = float(np.sqrt(self.m2 / self.count) + 1e-6)
        return obs, (reward / scale).astype(np.float32), done


def make_env(cfg):
    from .envs import VecArena
    env = VecArena(cfg.num_envs, cfg.grid, cfg.episode_len, cfg.seed)
    return RewardScale(EpisodeStats(env), cfg.gamma)
