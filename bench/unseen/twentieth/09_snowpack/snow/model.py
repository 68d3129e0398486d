import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.norm1 = nn.GroupNorm(8, cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.norm2 = nn.GroupNorm(8, cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        h = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(h)) + self.skip(x))


class TerrainEncoder(nn.Module):
    def __init__(self, layers, width):
        super().__init__()
        self.body = nn.Sequential(Block(layers, width, 1), Block(width, 2 * width, 2), Block(2 * width, 4 * width, 2))

    def forward(self, x):
        return self.body(x).mean(dim=(2, 3))


class SnowNet(nn.Module):
    """Weather GRU, conditioned on the terrain around the station."""

    def __init__(self, atlas, variables, patch, width, hidden):
        super().__init__()
        self.register_buffer("atlas", atlas)
        self.register_buffer("window", torch.arange(patch))
        self.terrain = TerrainEncoder(atlas.shape[0], width)
        self.start = nn.Linear(4 * width, hidden)
        self.weather = nn.GRU(variables, hidden, num_layers=1, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden + 4 * width, 128), nn.GELU(), nn.Linear(128, 2))

    def crop(self, corner):
        rows = corner[:, 0, None] + self.window
        cols = corner[:, 1, None] + self.window
        return self.atlas[:, rows[:, :, None], cols[:, None, :]].transpose(0, 1)

    def forward(self, weather, corner):
        ground = self.terrain(self.crop(corner))
        state = torch.tanh(self.start(ground))[None]
        _, last = self.weather(weather, state)
        mean, logvar = self.head(torch.cat([last[0], ground], 1)).unbind(1)
        return mean, logvar.clamp(-6, 4)
