"""Differentiable finite-volume solver for the potentials of a current injection."""
import torch
from torch import nn


class ResistivitySurvey(nn.Module):
    def __init__(self, grid):
        super().__init__()
        self.grid = grid
        self.register_buffer("sources", grid.dipoles(grid.injections))
        self.register_buffer("receivers", grid.dipoles(grid.potentials))
        self.register_buffer("face_factor", grid.face_factor)
        self.register_buffer("leak", grid.leak)
        n = grid.cells
        diagonal = torch.arange(n)
        self.register_buffer(
            "entries",
            torch.cat([
                grid.left * n + grid.right,
                grid.right * n + grid.left,
                grid.left * n + grid.left,
                grid.right * n + grid.right,
                diagonal * n + diagonal,
            ]),
        )

    def assemble(self, log_sigma):
        """Conductance matrix of every section, (batch, cells, cells)."""
        sigma = log_sigma.flatten(1).double().exp()
        left, right = sigma[:, self.grid.left], sigma[:, self.grid.right]
        conductance = self.face_factor * 2.0 * left * right / (left + right)
        values = torch.cat([-conductance, -conductance, conductance, conductance, sigma * self.leak], dim=1)
        n = self.grid.cells
        matrix = torch.zeros(len(sigma), n * n, dtype=values.dtype, device=values.device)
        return matrix.index_add(1, self.entries, values).view(-1, n, n)

    def potentials(self, log_sigma):
        """Potential in every cell for every injection, (batch, injections, cells)."""
        matrix = self.assemble(log_sigma)
        return torch.linalg.solve(matrix, self.sources.T.expand(len(matrix), -1, -1)).mT

    def forward(self, log_sigma):
        """Measured voltages, (batch, injections, receivers)."""
        return self.potentials(log_sigma) @ self.receivers.T


def apparent(voltages, reference):
    """Signed log-ratio to the voltages over a uniform half space; smooth through zero."""
    return torch.asinh(voltages / reference.abs().clamp_min(1e-3)) - torch.asinh(reference / reference.abs().clamp_min(1e-3))
