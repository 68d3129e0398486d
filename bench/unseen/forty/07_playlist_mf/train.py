"""Matrix factorisation with side features for playlists and tracks."""
import torch
import torch.nn as nn
import torch.nn.functional as F

N_PLAYLISTS = 120_000
N_TRACKS = 160_000
DIM = 32
BATCH = 2048
STEPS = 600


class Interactions:
    """Draws (playlist, track, neg_track) triples; popular tracks come more often."""

    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)

    def batch(self, n):
        u = torch.randint(0, N_PLAYLISTS, (n,), generator=self.g)
        pop = torch.rand(n, generator=self.g).pow(3)
        pos = ((pop * N_TRACKS).long() + u * 31) % N_TRACKS
        neg = torch.randint(0, N_TRACKS, (n,), generator=self.g)
        return u, pos, neg


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.playlist = nn.Embedding(N_PLAYLISTS, DIM)
        self.track = nn.Embedding(N_TRACKS, DIM)
        nn.init.normal_(self.playlist.weight, std=0.05)
        nn.init.normal_(self.track.weight, std=0.05)
        self.mix_u = nn.Sequential(nn.Linear(DIM, 256), nn.ReLU(), nn.Linear(256, DIM))
        self.mix_t = nn.Sequential(nn.Linear(DIM, 256), nn.ReLU(), nn.Linear(256, DIM))

    def forward(self, u, t):
        a = self.mix_u(self.playlist(u))
        b = self.mix_t(self.track(t))
        return (a * b).sum(-1)


def bpr(pos, neg):
    return -F.logsigmoid(pos - neg).mean()


def main():
    torch.manual_seed(0)
    data = Interactions(seed=42)
    model = TwoTower()
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    avg = 0.0
    for step in range(STEPS):
        u, pos, neg = data.batch(BATCH)
        loss = bpr(model(u, pos), model(u, neg))
        opt.zero_grad()
        loss.backward()
        opt.step()
        avg = 0.98 * avg + 0.02 * loss.item()
        if (step + 1) % 50 == 0:
            print(f"step {step + 1:4d}  bpr {avg / (1 - 0.98 ** (step + 1)):.4f}")


if __name__ == "__main__":
    main()
