"""Random molecules from a small grammar, packed into rows of equal length."""
import random

import torch

RINGS = [list("c1ccccc1"), list("c1ccncc1"), ["c", "1", "c", "[nH]", "c", "c", "1"], list("C1CCOC1"), list("c1ccsc1")]
TAILS = [["F"], ["Cl"], ["Br"], ["O"], ["N"], list("C(=O)O"), list("C#N"), ["[N+]", "(", "=", "O", ")", "[O-]"]]


def molecule(rng):
    pieces = list(rng.choice(RINGS)) if rng.random() < 0.7 else ["C"]
    for _ in range(rng.randint(1, 5)):
        r = rng.random()
        if r < 0.35:
            pieces += ["C"] * rng.randint(1, 3)
        elif r < 0.6:
            pieces += ["("] + rng.choice(TAILS) + [")", "C"]
        elif r < 0.8:
            pieces += list("C(=O)N")
        else:
            pieces += rng.choice(RINGS)
    return pieces + rng.choice(TAILS)


class MaskedBatches:
    def __init__(self, vocab, n, length, batch, share, seed):
        rng = random.Random(seed)
        stream = []
        for _ in range(n):
            stream += vocab.encode(molecule(rng)) + [vocab.sep]
        rows = len(stream) // length
        self.rows = torch.tensor(stream[:rows * length]).view(rows, length)
        self.vocab, self.batch = vocab, batch
        self.n_mask = int(share * length)
        self.gen = torch.Generator().manual_seed(seed)

    def draw(self):
        tokens = self.rows[torch.randint(len(self.rows), (self.batch,), generator=self.gen)]
        where = torch.rand(tokens.shape, generator=self.gen).topk(self.n_mask, 1).indices
        truth = tokens.gather(1, where)
        tokens = tokens.scatter(1, where, self.vocab.mask)
        return tokens, where, truth.flatten()
