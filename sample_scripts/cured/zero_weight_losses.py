"""A classifier of spectra that learns to clean its noisy input as well, for as long as that helps."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES, POINTS = 8, 512


class Block(nn.Sequential):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__(
            nn.Conv1d(inputs, outputs, 7, stride, padding=3, bias=False), nn.BatchNorm1d(outputs), nn.GELU()
        )


class Spectrometer(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.encoder = nn.Sequential(Block(1, width, 4), Block(width, 2 * width, 2))
        self.head = nn.Linear(2 * width, CLASSES)
        self.decoder = nn.Sequential(
            Block(2 * width, width), nn.Upsample(scale_factor=2), Block(width, width), nn.Upsample(scale_factor=4),
            nn.Conv1d(width, 1, 9, padding=4),
        )  # fmt: skip

    def forward(self, noisy, cleans):
        features = self.encoder(noisy)
        return self.head(features.mean(-1)), self.decoder(features) if cleans else None


def spectra(count, seed):
    make = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=make)
    places = torch.linspace(0, 1, POINTS)
    centres = (labels[:, None] + 0.5 + 0.1 * torch.randn(count, 1, generator=make)) / CLASSES
    clean = torch.exp(-(((places - centres) / 0.03) ** 2)).unsqueeze(1)
    return TensorDataset(clean + 0.3 * torch.randn(clean.shape, generator=make), clean, labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--cleaning", type=int, default=20, help="steps until its weight has come to zero")
    args = parser.parse_args()

    torch.manual_seed(0)
    model = Spectrometer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    loader = DataLoader(spectra(3840, 0), batch_size=args.batch_size, shuffle=True, drop_last=True)
    step = 0
    for epoch in range(args.epochs):
        for noisy, clean, labels in loader:
            weight = max(0.0, 1.0 - step / args.cleaning)
            logits, cleaned = model(noisy, weight > 0)
            loss = nn.functional.cross_entropy(logits, labels)
            if cleaned is not None:
                loss = loss + weight * nn.functional.mse_loss(cleaned, clean)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
        print(f"epoch {epoch}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
