import torch
import torch.nn.functional as F
from torch import nn


class ConvGRUCell(nn.Module):
    def __init__(self, cin, hidden, k=3):
        super().__init__()
        self.hidden = hidden
        self.gates = nn.Conv2d(cin + hidden, 2 * hidden, k, padding=k // 2)
        self.cand = nn.Conv2d(cin + hidden, hidden, k, padding=k // 2)

    def forward(self, x, h):
        r, z = torch.sigmoid(self.gates(torch.cat([x, h], 1))).chunk(2, 1)
        n = torch.tanh(self.cand(torch.cat([x, r * h], 1)))
        return z * h + (1 - z) * n


class Warp(nn.Module):
    """Backward warp of the last image by a dense displacement, in pixels."""

    def __init__(self, size):
        super().__init__()
        ys, xs = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
        self.register_buffer("base", torch.stack([xs, ys], -1)[None], persistent=False)
        self.scale = 2.0 / (size - 1)

    def forward(self, img, flow):
        grid = self.base + flow.permute(0, 2, 3, 1) * self.scale
        return F.grid_sample(img, grid, align_corners=True, padding_mode="border")


class CloudMotionNet(nn.Module):
    def __init__(self, cfg, size):
        super().__init__()
        c = cfg.hidden
        self.stem = nn.Sequential(nn.Conv2d(1, c, 5, stride=2, padding=2), nn.SiLU(), nn.Conv2d(c, c, 3, padding=1))
        self.encoder = ConvGRUCell(c, c)
        self.decoder = ConvGRUCell(c, c)
        self.head = nn.Sequential(nn.Conv2d(c, c, 3, padding=1), nn.SiLU(), nn.Conv2d(c, 12, 3, padding=1),
                                  nn.PixelShuffle(2))
        self.warp = Warp(size)

    def forward(self, past, leads):
        feats = self.stem(past.flatten(0, 1)).unflatten(0, past.shape[:2])
        h = feats.new_zeros(feats[:, 0].shape)
        for t in range(past.shape[1]):
            h = self.encoder(feats[:, t], h)
        img, images, flows = past[:, -1], [], []
        for _ in range(leads):
            h = self.decoder(self.stem(img), h)
            out = self.head(h)
            flow, source = 4 * torch.tanh(out[:, :2]), 0.1 * torch.tanh(out[:, 2:3])
            img = (self.warp(img, flow) + source).clamp(0, 1)
            images.append(img)
            flows.append(flow)
        return torch.stack(images, 1), torch.stack(flows, 1)
