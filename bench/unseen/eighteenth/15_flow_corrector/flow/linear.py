"""Implicit parts of the scheme.  Walls or obstacles would change the matrices, hence no FFT."""
import torch


class Implicit:
    """(a I + b L) u = f on the grid, for fixed a and b."""

    def __init__(self, grid, a, b):
        self.grid, self.a, self.b = grid, a, b

    def matrix(self):
        lap = self.grid.laplacian_matrix()
        return self.a * torch.eye(len(lap)) + self.b * lap

    def __call__(self, f):
        rhs = self.grid.flat(f).T
        return self.grid.field(torch.linalg.solve(self.matrix(), rhs).T)


def poisson(grid, anchor=1e-3):
    return Implicit(grid, -anchor, 1.0)


def diffusion(grid, nu, dt):
    return Implicit(grid, 1.0, -nu * dt)
