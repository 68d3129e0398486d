import torch


def pack(docs, width):
    """Next-fit packing; yields (tokens, segment numbers starting at 1)."""
    row, seg, k = [], [], 0
    for doc in docs:
        doc = doc[:width]
        if row and len(row) + len(doc) > width:
            yield row, seg
            row, seg, k = [], [], 0
        k += 1
        row = row + doc
        seg = seg + [k] * len(doc)
    if row:
        yield row, seg


class PackedBatches:
    """Endless shuffled batches of packed rows; attention stays inside a document."""

    def __init__(self, docs, block, batch, pad, seed):
        width = block + 1
        packed = list(pack(docs, width))
        self.tokens = torch.full((len(packed), width), pad, dtype=torch.long)
        self.segments = torch.zeros((len(packed), width), dtype=torch.long)
        for r, (row, seg) in enumerate(packed):
            self.tokens[r, :len(row)] = torch.tensor(row)
            self.segments[r, :len(seg)] = torch.tensor(seg)
        self.batch, self.rows = batch, len(packed)
        self.gen = torch.Generator().manual_seed(seed)
        self.causal = torch.ones(block, block, dtype=torch.bool).tril()

    def _collate(self, idx):
        tok, seg = self.tokens[idx], self.segments[idx]
        inside = seg[:, :-1]
        mask = (inside[:, :, None] == inside[:, None, :]) & self.causal
        scored = (seg[:, 1:] == inside) & (inside > 0)
        return {"x": tok[:, :-1], "y": tok[:, 1:], "seg": inside, "mask": mask[:, None], "scored": scored}

    def __iter__(self):
        while True:
            order = torch.randperm(self.rows, generator=self.gen)
            for idx in order.split(self.batch):
                if len(idx) == self.batch:
                    yield self._collate(idx)
