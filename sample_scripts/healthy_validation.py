"""A mixer of patches sorts textures; every second epoch a small part that was held back is looked at, and saved."""

# expect: verdict=healthy finding=none

import argparse
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class Mixer(nn.Module):
    def __init__(self, patches, width):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.places = nn.Sequential(
            nn.Linear(patches, 2 * patches), nn.GELU(), nn.Linear(2 * patches, patches)
        )
        self.channels = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.places(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norms[1](x))


class MixerNet(nn.Module):
    def __init__(self, width=96, depth=3):
        super().__init__()
        self.patches = nn.Conv2d(1, width, 4, stride=4)
        self.mixers = nn.Sequential(*(Mixer(64, width) for _ in range(depth)))
        self.classify = nn.Linear(width, 4)

    def forward(self, images):
        patches = self.patches(images).flatten(2).transpose(1, 2)
        return self.classify(self.mixers(patches).mean(1))


def textures(count):
    """Stripes that lie, stand or lean, and none at all, all under noise."""
    y, x = torch.meshgrid(torch.arange(32), torch.arange(32), indexing="ij")
    kinds = torch.stack(
        [torch.sin(y * 0.8), torch.sin(x * 0.8), torch.sin((x + y) * 0.6), torch.zeros(32, 32)]
    )
    labels = torch.arange(count) % 4
    return TensorDataset((kinds[labels] + torch.randn(count, 32, 32)).unsqueeze(1), labels)


@torch.inference_mode()
def accuracy(model, loader):
    model.eval()
    right = sum((model(images).argmax(1) == labels).sum().item() for images, labels in loader)
    model.train()
    return right / len(loader.dataset)


def main(epochs, folder):
    train, held_back = random_split(textures(1400), [1280, 120])
    train_loader = DataLoader(train, batch_size=64, shuffle=True)
    test_loader = DataLoader(held_back, batch_size=120)
    model = MixerNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(epochs):
        for images, labels in train_loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch % 2:
            torch.save(model.state_dict(), folder / "last.pt")
            print(f"epoch {epoch}: loss {loss.item():.3f}, accuracy {accuracy(model, test_loader):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as name:
        main(args.epochs, Path(name))
