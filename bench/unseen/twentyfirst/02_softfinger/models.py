import torch
from torch import nn
from torch.nn.utils.parametrizations import orthogonal


class ModReLU(nn.Module):
    """Magnitude threshold, keeps the sign; the usual partner of an orthogonal recurrence."""

    def __init__(self, width, bias):
        super().__init__()
        self.bias = nn.Parameter(torch.full((width,), float(bias)))

    def forward(self, z):
        return torch.sign(z) * torch.relu(z.abs() + self.bias)


class OrthoCell(nn.Module):
    def __init__(self, width, orth_map, act_bias):
        super().__init__()
        self.inp = nn.Linear(width, width)
        self.rec = orthogonal(nn.Linear(width, width, bias=False), orthogonal_map=orth_map)
        self.act = ModReLU(width, act_bias)

    def forward(self, x, h):
        return self.act(self.inp(x) + self.rec(h))


class OrthoRNN(nn.Module):
    def __init__(self, width, layers, orth_map="cayley", act_bias=0.0):
        super().__init__()
        self.width = width
        self.cells = nn.ModuleList(OrthoCell(width, orth_map, act_bias) for _ in range(layers))

    def init_state(self, batch, ref):
        return [ref.new_zeros(batch, self.width) for _ in self.cells]

    def forward(self, x, state=None):
        state = self.init_state(x.shape[0], x) if state is None else list(state)
        outputs = []
        for t in range(x.shape[1]):
            z = x[:, t]
            for i, cell in enumerate(self.cells):
                state[i] = cell(z, state[i])
                z = z + state[i]
            outputs.append(z)
        return torch.stack(outputs, dim=1), state


class ShapeEstimator(nn.Module):
    """Strain history -> tip position and segment curvatures at every sample."""

    def __init__(self, channels, segments, cfg):
        super().__init__()
        h = cfg["hidden"]
        self.embed = nn.Sequential(nn.Linear(channels, h), nn.LayerNorm(h))
        self.rnn = OrthoRNN(h, cfg["layers"], cfg["map"], cfg["act_bias"])
        self.trunk = nn.Sequential(nn.LayerNorm(h), nn.Linear(h, cfg["head_width"]), nn.GELU())
        self.tip = nn.Linear(cfg["head_width"], 3)
        self.curv = nn.Linear(cfg["head_width"], 2 * segments)

    def forward(self, strain, state=None):
        z, state = self.rnn(self.embed(strain), state)
        z = self.trunk(z)
        return self.tip(z), self.curv(z), state

    def param_groups(self, lr, lr_orth):
        orth = [p for n, p in self.named_parameters() if ".rec." in n]
        rest = [p for n, p in self.named_parameters() if ".rec." not in n]
        return [{"params": rest, "lr": lr}, {"params": orth, "lr": lr_orth}]
