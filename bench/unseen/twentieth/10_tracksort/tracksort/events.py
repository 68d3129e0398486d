"""Toy events: helices through a barrel of 14 layers, plus noise hits."""
import torch


class EventStore:
    def __init__(self, events, hits, tracks, seed):
        gen = torch.Generator().manual_seed(seed)
        label = torch.randint(0, tracks, (events, hits), generator=gen)
        phi0 = (torch.rand(events, tracks, generator=gen) * 2 - 1) * torch.pi
        curve = torch.randn(events, tracks, generator=gen) * 0.6
        dip = torch.randn(events, tracks, generator=gen)
        radius = torch.randint(1, 15, (events, hits), generator=gen) / 14.0
        phi = phi0.gather(1, label) + curve.gather(1, label) * radius
        phi = phi + 0.01 * torch.randn(events, hits, generator=gen)
        z = dip.gather(1, label) * radius + 0.01 * torch.randn(events, hits, generator=gen)
        energy = torch.rand(events, hits, generator=gen)
        self.features = torch.stack([radius * phi.cos(), radius * phi.sin(), z, radius, energy], -1)
        # slots are numbered by the azimuth of their track
        rank = phi0.argsort(1).argsort(1)
        self.label = rank.gather(1, label)

    def split(self, held_out):
        whole = (self.features, self.label)
        return tuple(t[held_out:] for t in whole), tuple(t[:held_out] for t in whole)
