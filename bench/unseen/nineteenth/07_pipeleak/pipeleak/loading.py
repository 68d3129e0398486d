import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from .hydraulics import simulate
from .records import Network


class NetworkSet(Dataset):
    def __init__(self, count, low, high, seed):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(low, high + 1, count)
        self.networks = [Network.from_simulation(simulate(rng, int(n))) for n in sizes]
        self.sizes = sizes

    def __len__(self):
        return len(self.networks)

    def __getitem__(self, index):
        net = self.networks[index]
        if torch.rand(()) < 0.5:
            noise = 0.002 * torch.randn(net.junctions) * net.sensor
            return Network(**{**vars(net), "residual": net.residual + noise})
        return net


class NodeBudgetSampler(Sampler):
    """Batches of similar network sizes whose junction total stays under a budget."""

    def __init__(self, sizes, node_budget, window, shuffle, seed):
        self.sizes = np.asarray(sizes)
        self.node_budget = node_budget
        self.window = window
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0

    def __iter__(self):
        rng = np.random.default_rng((self.seed, self.epoch))
        self.epoch += 1
        order = rng.permutation(len(self.sizes)) if self.shuffle else np.arange(len(self.sizes))
        for start in range(0, len(order), self.window):
            chunk = order[start:start + self.window]
            chunk = chunk[np.argsort(self.sizes[chunk], kind="stable")]
            bins = np.cumsum(self.sizes[chunk]) // self.node_budget
            groups = [chunk[bins == b].tolist() for b in np.unique(bins)]
            if self.shuffle:
                rng.shuffle(groups)
            yield from groups


def collate_networks(samples):
    return samples


def build_loaders(settings):
    spec, seed = settings["networks"], settings["seed"]
    low, high = spec["min_junctions"], spec["max_junctions"]
    train = NetworkSet(spec["count"], low, high, seed)
    holdout = NetworkSet(spec["holdout"], low, high, seed + 1)

    def loader(data, shuffle, workers):
        sampler = NodeBudgetSampler(data.sizes, shuffle=shuffle, seed=seed, **settings["sampler"])
        return DataLoader(data, batch_sampler=sampler, collate_fn=collate_networks,
                          num_workers=workers, persistent_workers=workers > 0,
                          prefetch_factor=settings["loader"]["prefetch"] if workers else None)

    return loader(train, True, settings["loader"]["workers"]), loader(holdout, False, 0)
