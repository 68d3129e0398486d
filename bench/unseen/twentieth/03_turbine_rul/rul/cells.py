"""Weight-normalised LSTM with zoneout (Krueger et al.), unrolled by hand."""
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm


class ZoneoutLSTM(nn.Module):
    def __init__(self, n_in, hidden, zoneout):
        super().__init__()
        self.hidden, self.zoneout = hidden, zoneout
        self.ih = weight_norm(nn.Linear(n_in, 4 * hidden))
        self.hh = weight_norm(nn.Linear(hidden, 4 * hidden, bias=False))
        with torch.no_grad():
            self.ih.bias[hidden:2 * hidden] = 1.0

    def step(self, gates_x, h, c):
        i, f, g, o = (gates_x + self.hh(h)).chunk(4, -1)
        c_new = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h_new = torch.sigmoid(o) * torch.tanh(c_new)
        if self.training:
            keep = torch.rand_like(h) < self.zoneout
            return torch.where(keep, h, h_new), torch.where(keep, c, c_new)
        return torch.lerp(h_new, h, self.zoneout), torch.lerp(c_new, c, self.zoneout)

    def forward(self, x):
        gates = self.ih(x).unbind(1)
        h = c = x.new_zeros(x.shape[0], self.hidden)
        out = []
        for gates_x in gates:
            h, c = self.step(gates_x, h, c)
            out.append(h)
        return torch.stack(out, 1)
