"""Periodic square grid with the usual second-order operators."""
import math

import torch


class Grid:
    def __init__(self, cells, length=2 * math.pi):
        self.n, self.h = cells, length / cells
        line = torch.arange(cells, dtype=torch.float32) * self.h
        self.y, self.x = torch.meshgrid(line, line, indexing="ij")

    def ddx(self, f):
        return (f.roll(-1, -1) - f.roll(1, -1)) / (2 * self.h)

    def ddy(self, f):
        return (f.roll(-1, -2) - f.roll(1, -2)) / (2 * self.h)

    def laplacian_1d(self):
        eye = torch.eye(self.n)
        return (eye.roll(1, 0) + eye.roll(-1, 0) - 2 * eye) / self.h ** 2

    def laplacian_matrix(self):
        eye, one = torch.eye(self.n), self.laplacian_1d()
        return torch.kron(one, eye) + torch.kron(eye, one)

    def flat(self, f):
        return f.reshape(-1, self.n * self.n)

    def field(self, v):
        return v.reshape(-1, self.n, self.n)
