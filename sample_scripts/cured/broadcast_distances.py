"""A vector quantiser: each part of an image becomes the nearest entry of a code book that is learned."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Quantiser(nn.Module):
    def __init__(self, entries, width):
        super().__init__()
        self.book = nn.Parameter(torch.randn(entries, width))

    def forward(self, parts):
        squares = parts.square().sum(-1)[:, None] + self.book.square().sum(-1)
        apart = squares - 2 * parts @ self.book.T
        weights = (-apart).softmax(-1)
        return weights @ self.book, apart.min(-1).values.mean()


class Model(nn.Module):
    def __init__(self, entries, width, patch=4):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, width, patch, stride=patch), nn.ReLU(), nn.Conv2d(width, width, 1)
        )
        self.quantiser = Quantiser(entries, width)
        self.decoder = nn.ConvTranspose2d(width, 1, patch, stride=patch)

    def forward(self, images):
        encoded = self.encoder(images)
        parts = encoded.flatten(2).transpose(1, 2).reshape(-1, encoded.shape[1])
        quantised, commitment = self.quantiser(parts)
        back = quantised.view(len(images), -1, encoded.shape[1]).transpose(1, 2).view_as(encoded)
        return self.decoder(back), commitment


def digits():
    images = torch.from_numpy(load_digits().images).float().unsqueeze(1) / 8 - 1
    return TensorDataset(nn.functional.interpolate(images, scale_factor=2.0, mode="bilinear"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--entries", type=int, default=128)
    parser.add_argument("--width", type=int, default=32)
    args = parser.parse_args()

    torch.manual_seed(0)
    model = Model(args.entries, args.width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    loader = DataLoader(digits(), batch_size=args.batch_size, shuffle=True, drop_last=True)
    for epoch in range(args.epochs):
        for (images,) in loader:
            drawn, commitment = model(images)
            loss = nn.functional.mse_loss(drawn, images) + 0.01 * commitment
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
