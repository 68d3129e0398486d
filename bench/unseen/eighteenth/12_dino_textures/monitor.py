"""Watches for collapse: effective rank and uniformity (Wang & Isola) of recent embeddings."""
import torch


def spectrum(z):
    z = z - z.mean(0)
    s = torch.linalg.svdvals(z)
    return s / (s.sum() + 1e-9)


def effective_rank(z):
    p = spectrum(z)
    return torch.exp(-(p * (p + 1e-12).log()).sum())


def uniformity(z, t=2.0):
    return torch.pdist(z).pow(2).mul(-t).exp().mean().log()


def health(z):
    return {"rank": effective_rank(z), "uniformity": uniformity(z)}


class Bank:
    def __init__(self, rows, dim):
        self.data, self.at, self.full = torch.zeros(rows, dim), 0, False

    def push(self, z):
        idx = (self.at + torch.arange(len(z))) % len(self.data)
        self.data[idx] = z
        self.full |= self.at + len(z) >= len(self.data)
        self.at = (self.at + len(z)) % len(self.data)

    def rows(self):
        return self.data if self.full else self.data[:max(self.at, 1)]


class CollapseMonitor:
    def __init__(self, rows, dim):
        self.bank = Bank(rows, dim)
        self.last = {}

    def observe(self, z):
        self.bank.push(z.detach())
        self.last = health(self.bank.rows())

    def read(self):
        return {k: v.item() for k, v in self.last.items()}
