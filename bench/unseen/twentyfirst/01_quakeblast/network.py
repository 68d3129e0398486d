import torch
from torch import nn


class ResBlock(nn.Module):
    def __init__(self, cin, cout, stride=1, k=7, p=0.0):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(cin, cout, k, stride=stride, padding=k // 2, bias=False),
            nn.BatchNorm1d(cout),
            nn.ReLU(inplace=True),
            nn.Dropout(p),
            nn.Conv1d(cout, cout, k, padding=k // 2, bias=False),
            nn.BatchNorm1d(cout),
        )
        if stride != 1 or cin != cout:
            self.skip = nn.Sequential(nn.Conv1d(cin, cout, 1, stride=stride, bias=False), nn.BatchNorm1d(cout))
        else:
            self.skip = nn.Identity()

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


class BlastNet(nn.Module):
    """Three-component waveform in, one logit out (positive = blast)."""

    def __init__(self, width=16, blocks=(2, 2, 2), dropout=0.1):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv1d(3, width, 15, stride=4, padding=7, bias=False),
            nn.BatchNorm1d(width),
            nn.ReLU(inplace=True),
        )
        layers, c = [], width
        for stage, n in enumerate(blocks):
            cout = width * 2 ** stage
            for i in range(n):
                layers.append(ResBlock(c, cout, stride=2 if i == 0 else 1, p=dropout))
                c = cout
        self.trunk = nn.Sequential(*layers)
        self.attn = nn.Conv1d(c, 1, 1)
        self.head = nn.Linear(2 * c, 1)

    def forward(self, x):
        h = self.trunk(self.stem(x))
        w = torch.softmax(self.attn(h), dim=-1)
        pooled = torch.cat([(h * w).sum(-1), h.amax(-1)], dim=1)
        return self.head(pooled).squeeze(1)
