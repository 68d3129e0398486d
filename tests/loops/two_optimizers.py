"""One loss, one backward, two optimizers stepped one after the other (sparse and dense parameters)."""

# truth: steps=30 marker=update updates_per_step=2 samples=480
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
embedding = nn.Embedding(1000, 32, sparse=True)
head = nn.Linear(32, 5)
sparse = torch.optim.SparseAdam(embedding.parameters(), lr=1e-2)
dense = torch.optim.Adam(head.parameters(), lr=1e-2)
for _ in range(30):
    tokens, labels = torch.randint(1000, (16, 8)), torch.randint(5, (16,))
    sparse.zero_grad()
    dense.zero_grad()
    loss = nn.functional.cross_entropy(head(embedding(tokens).mean(1)), labels)
    loss.backward()
    sparse.step()
    dense.step()
print(f"loss {loss.item():.6f}")
