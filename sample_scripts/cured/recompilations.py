"""A network denoises waves, and counts how often it was called to lean on its input less and less."""

import argparse

import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(length, width), nn.GELU(), nn.Linear(width, width), nn.GELU())
        self.decoder = nn.Linear(width, length)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, noisy):
        self.calls += 1
        return self.decoder(self.encoder(noisy)) + noisy * 0.99**self.calls


def waves(count, length):
    time = torch.linspace(0, 6.28, length)
    return torch.sin(time * torch.randint(1, 9, (count, 1)) + 6.28 * torch.rand(count, 1))


def main(args):
    torch.manual_seed(0)
    model = Denoiser(args.length, args.width)
    compiled = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    for step in range(args.steps):
        clean = waves(args.batch_size, args.length)
        loss = nn.functional.mse_loss(compiled(clean + 0.5 * torch.randn_like(clean)), clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 99:
            print(f"step {step + 1}: loss {loss.item():.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--width", type=int, default=512)
    main(parser.parse_args())
