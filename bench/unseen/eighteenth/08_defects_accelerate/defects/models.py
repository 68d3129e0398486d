import torch
from torch import nn


def conv_block(cin, cout, stride):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
    )


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a, self.b = conv_block(width, width, 1), conv_block(width, width, 1)

    def forward(self, x):
        return x + self.b(self.a(x))


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.dim = width * 4
        self.layers = nn.Sequential(
            conv_block(3, width, 1),
            Residual(width),
            conv_block(width, width * 2, 2),
            Residual(width * 2),
            conv_block(width * 2, width * 4, 2),
            Residual(width * 4),
        )

    def forward(self, x):
        return self.layers(x)


class FixedEncoder(nn.Module):
    """Encoder whose statistics and weights stay as they were loaded."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder.eval()
        self.dim = encoder.dim

    def train(self, mode=True):
        super().train(mode)
        self.encoder.eval()
        return self

    def forward(self, x):
        return self.encoder(x).flatten(2).transpose(1, 2)


class AttentionPoolHead(nn.Module):
    def __init__(self, dim, heads, classes):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.query = nn.Parameter(torch.randn(1, heads, dim) * dim**-0.5)
        self.value = nn.Linear(dim, dim)
        self.out = nn.Sequential(nn.LayerNorm(heads * dim), nn.Dropout(0.1), nn.Linear(heads * dim, classes))

    def forward(self, tokens):
        tokens = self.norm(tokens)
        weights = (self.query @ tokens.transpose(1, 2) * tokens.shape[-1] ** -0.5).softmax(-1)
        return self.out((weights @ self.value(tokens)).flatten(1))


class DefectClassifier(nn.Module):
    def __init__(self, width, heads, classes):
        super().__init__()
        self.backbone = FixedEncoder(Encoder(width))
        self.head = AttentionPoolHead(self.backbone.dim, heads, classes)

    def forward(self, x):
        return self.head(self.backbone(x))

    def tunable(self):
        return list(self.head.parameters())
