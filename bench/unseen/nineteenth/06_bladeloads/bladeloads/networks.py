import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm


class Modulated(nn.Module):
    def __init__(self, channels, style):
        super().__init__()
        self.norm = nn.GroupNorm(8, channels, affine=False)
        self.affine = nn.Linear(style, 2 * channels)

    def forward(self, x, style):
        scale, shift = self.affine(style).unsqueeze(-1).chunk(2, dim=1)
        return torch.addcmul(shift, self.norm(x), 1.0 + scale)


class UpBlock(nn.Module):
    def __init__(self, inp, out, style):
        super().__init__()
        self.mod1 = Modulated(inp, style)
        self.conv1 = nn.Conv1d(inp, out, 5, padding=2)
        self.mod2 = Modulated(out, style)
        self.conv2 = nn.Conv1d(out, out, 5, padding=2)
        self.skip = nn.Conv1d(inp, out, 1)

    def forward(self, x, style):
        x = F.interpolate(x, scale_factor=2, mode="nearest")
        y = self.conv1(F.leaky_relu(self.mod1(x, style), 0.2))
        y = self.conv2(F.leaky_relu(self.mod2(y, style), 0.2))
        return y + self.skip(x)


class Generator(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.latent = settings.latent
        self.stem_length = settings.stem
        first, *_ = settings.generator_channels
        style = settings.latent + settings.condition
        self.stem = nn.Linear(style, first * settings.stem)
        pairs = zip(settings.generator_channels, settings.generator_channels[1:] + (32,))
        self.blocks = nn.ModuleList(UpBlock(a, b, style) for a, b in pairs)
        self.out = nn.Conv1d(32, 1, 7, padding=3)

    def forward(self, z, condition):
        style = torch.cat([z, condition], dim=1)
        x = self.stem(style).view(len(z), -1, self.stem_length)
        for block in self.blocks:
            x = block(x, style)
        return self.out(F.leaky_relu(x, 0.2))

    def sample(self, condition):
        z = torch.randn(len(condition), self.latent, device=condition.device)
        return self(z, condition)


class Critic(nn.Module):
    """Strided convolutions with a projection of the wind condition."""

    def __init__(self, settings):
        super().__init__()
        widths = (1,) + settings.critic_channels
        self.convs = nn.ModuleList(
            spectral_norm(nn.Conv1d(a, b, 6, stride=2, padding=2))
            for a, b in zip(widths, widths[1:]))
        self.score = spectral_norm(nn.Linear(widths[-1], 1))
        self.project = spectral_norm(nn.Linear(settings.condition, widths[-1]))

    def forward(self, moments, condition):
        x = moments
        for conv in self.convs:
            x = F.leaky_relu(conv(x), 0.2)
        pooled = x.mean(dim=2)
        return self.score(pooled).squeeze(1) + (pooled * self.project(condition)).sum(1)
