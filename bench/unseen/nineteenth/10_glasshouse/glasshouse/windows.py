import torch


def split_tables(tables, fraction):
    cut = int(len(tables[0]) * fraction)
    return [t.iloc[:cut].reset_index(drop=True) for t in tables], [t.iloc[cut:].reset_index(drop=True) for t in tables]


class WindowSampler:
    """Random (compartment, start) windows, gathered from strided views of one tensor."""

    def __init__(self, packed, targets, batch_size, history, horizon, seed):
        series = torch.from_numpy(packed)
        self.past = series.unfold(1, history, 1)
        self.future = series[:, history:, targets].unfold(1, horizon, 1)
        self.batch_size, self.seed = batch_size, seed
        self.compartments, self.starts = self.future.shape[:2]

    def batches(self, count):
        generator = torch.Generator().manual_seed(self.seed)
        for _ in range(count):
            which = torch.randint(self.compartments, (self.batch_size,), generator=generator)
            start = torch.randint(self.starts, (self.batch_size,), generator=generator)
            yield self.past[which, start], self.future[which, start]
