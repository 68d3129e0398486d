"""Which sounds are heard in a spectrogram: a transformer over its patches, whose gradients are watched."""

# expect: verdict=host finding=device-sync-in-loop

import collections

import common
import torch
from torch import nn


class Meter:
    """The latest values of something."""

    def __init__(self, kept=50):
        self.values = collections.deque(maxlen=kept)

    def update(self, value):
        self.values.append(float(value))  # <- finding
        # cured: self.values.append(value)

    def average(self):
        return sum(float(value) for value in self.values) / max(1, len(self.values))


class Watch:
    """Meters by name: losses, and what tells of gradients that vanish or explode."""

    def __init__(self):
        self.meters = collections.defaultdict(Meter)

    @torch.no_grad()
    def gradients(self, model):
        for name, weight in model.named_parameters():
            self.meters[f"{name}/weight"].update(weight.norm())
            self.meters[f"{name}/gradient"].update(weight.grad.norm())
            self.meters[f"{name}/largest"].update(weight.grad.max())

    def loss(self, value):
        self.meters["loss"].update(value.detach())

    def __str__(self):
        return f"loss {self.meters['loss'].average():.4f}, {len(self.meters)} meters"


class Patches(nn.Module):
    """Squares of a spectrogram, one after the other."""

    def __init__(self, width, patch, count):
        super().__init__()
        self.patch, self.project = patch, nn.Linear(patch * patch, width)
        self.places = nn.Parameter(torch.randn(count, width) / 50)

    def forward(self, sounds):
        squares = nn.functional.pixel_unshuffle(sounds, self.patch).flatten(2).transpose(1, 2)
        return self.project(squares) + self.places


class Tagger(nn.Module):
    def __init__(self, width, heads, layers, patches, tags):
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.patches = Patches(width, 16, patches)
        self.encoder = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.tags = nn.Linear(width, tags)

    def forward(self, sounds):
        return self.tags(self.encoder(self.patches(sounds)).mean(1))


args = common.arguments()
size, bands, frames = common.sized(args, (48, 128, 512), (2, 32, 32))
width, heads, layers = common.sized(args, (1024, 16, 8), (32, 2, 1))
with torch.device(args.device):
    model = Tagger(width, heads, layers, bands * frames // 256, 512).to(torch.bfloat16)
    sounds = torch.randn(8, size, 1, bands, frames, dtype=torch.bfloat16)
    heard = (torch.rand(8, size, 512) < 0.01).float()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
watch = Watch()
for step in common.steps(args, samples=size):
    tags = model(sounds[step % 8])
    loss = nn.functional.binary_cross_entropy_with_logits(tags.float(), heard[step % 8])
    optimizer.zero_grad()
    loss.backward()
    watch.loss(loss)
    watch.gradients(model)
    optimizer.step()
print(watch)
