import torch


class Compose:
    def __init__(self, *steps):
        self.steps = steps

    def __call__(self, x):
        for step in self.steps:
            x = step(x)
        return x


class RandomFlips:
    def __init__(self, generator):
        self.generator = generator

    def __call__(self, x):
        lr, ud = (torch.rand(2, generator=self.generator) < 0.5).tolist()
        dims = [d for d, on in ((2, lr), (1, ud)) if on]
        return x.flip(dims) if dims else x


class Normalize:
    def __init__(self, mean=0.5, std=0.25):
        self.mean, self.std = mean, std

    def __call__(self, x):
        return (x - self.mean) / self.std
