from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize


class ModReLU(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.bias = nn.Parameter(torch.empty(features).uniform_(-0.01, 0.01))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sign(x) * torch.relu(x.abs() + self.bias)


class OrthogonalRNN(nn.Module):
    """Recurrent layer whose transition stays on the orthogonal group (Lezcano-Casado, 2019)."""

    def __init__(self, inputs: int, state: int):
        super().__init__()
        self.drive = nn.Linear(inputs, state)
        transition = nn.Linear(state, state, bias=False)
        nn.init.orthogonal_(transition.weight)
        self.transition = parametrizations.orthogonal(transition, orthogonal_map="cayley")
        self.nonlinearity = ModReLU(state)
        self.state = state

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        driven = self.drive(x).unbind(dim=1)
        hidden = x.new_zeros(x.shape[0], self.state)
        outputs = []
        with parametrize.cached():
            for step in driven:
                hidden = self.nonlinearity(step + self.transition(hidden))
                outputs.append(hidden)
        return torch.stack(outputs, dim=1)
