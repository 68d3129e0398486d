"""A variational autoencoder of made-up place names; the search for NaNs was never switched off."""

# expect: verdict=compute finding=debug-mode-on

import argparse
import random

import torch
from torch import nn

LETTERS = "abcdefghijklmnopqrstuvwxyz."
LENGTH = 12

torch.autograd.set_detect_anomaly(True)  # <- finding


def names(count):
    source = random.Random(0)
    starts = ["ash", "bur", "kings", "new", "nor", "stan", "thorn", "wood"]
    ends = ["bridge", "bury", "ford", "ham", "ley", "ton", "wick", "worth"]
    words = [source.choice(starts) + source.choice(ends) for _ in range(count)]
    return torch.tensor(
        [[LETTERS.index(letter) for letter in word[:LENGTH].ljust(LENGTH, ".")] for word in words]
    )


class NameVAE(nn.Module):
    def __init__(self, width=64, latent=8):
        super().__init__()
        self.width = width
        self.letters = nn.Embedding(len(LETTERS), width)
        self.encoder = nn.GRUCell(width, width)
        self.statistics = nn.Linear(width, 2 * latent)
        self.start = nn.Linear(latent, width)
        self.decoder = nn.LSTMCell(width, width)
        self.head = nn.Linear(width, len(LETTERS))

    def forward(self, words):
        letters = self.letters(words)
        state = letters.new_zeros(len(words), self.width)
        for place in range(LENGTH):
            state = self.encoder(letters[:, place], state)
        mean, log_variance = self.statistics(state).chunk(2, 1)
        latent = mean + torch.randn_like(mean) * (log_variance / 2).exp()
        hidden, cell = self.start(latent), torch.zeros_like(state)
        logits = []
        for place in range(LENGTH):
            previous = letters[:, place - 1] if place else torch.zeros_like(state)
            hidden, cell = self.decoder(previous, (hidden, cell))
            logits.append(self.head(hidden))
        divergence = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum(1).mean()
        return torch.stack(logits, 1), divergence


def main(steps, batch_size):
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the matrices are small: more threads would wait for each other
    words = names(5000)
    model = NameVAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(1, steps + 1):
        batch = words[torch.randint(len(words), (batch_size,))]
        logits, divergence = model(batch)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch.flatten()) + 0.02 * divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()
    main(args.steps, args.batch_size)
