"""Topic classifier over support tickets with a small transformer encoder."""
import math
import random

import torch
import torch.nn as nn
from torch.utils.data import DataLoader

VOCAB, TOPICS, MAX_LEN, PAD = 4000, 8, 160, 0
torch.manual_seed(11)
rng = random.Random(11)


def fake_ticket():
    topic = rng.randrange(TOPICS)
    # most tickets are a few sentences; the longest ones reach the limit
    n = min(MAX_LEN, int(rng.lognormvariate(3.1, 0.35)) + 4)
    if rng.random() < 0.0005:
        n = MAX_LEN
    base = 1 + topic * 400
    words = [base + rng.randrange(400) if rng.random() < 0.3 else rng.randrange(1, VOCAB) for _ in range(n)]
    return words, topic


tickets = [fake_ticket() for _ in range(6000)]


def collate(batch):
    longest = max(len(words) for words, _ in batch)
    ids = torch.full((len(batch), longest), PAD, dtype=torch.long)
    for row, (words, _) in enumerate(batch):
        ids[row, : len(words)] = torch.tensor(words)
    labels = torch.tensor([t for _, t in batch])
    return ids, labels


class TicketEncoder(nn.Module):
    def __init__(self, dim=96, heads=4, layers=2):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        pos = torch.zeros(MAX_LEN, dim)
        t = torch.arange(MAX_LEN).unsqueeze(1)
        freq = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        pos[:, 0::2], pos[:, 1::2] = torch.sin(t * freq), torch.cos(t * freq)
        self.register_buffer("pos", pos)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(dim, TOPICS)

    def forward(self, ids):
        mask = ids == PAD
        h = self.tok(ids) + self.pos[: ids.size(1)]
        h = self.encoder(h, src_key_padding_mask=mask)
        keep = (~mask).unsqueeze(-1)
        return self.head((h * keep).sum(1) / keep.sum(1))


loader = DataLoader(tickets, batch_size=16, shuffle=True, collate_fn=collate, drop_last=True,
                    generator=torch.Generator().manual_seed(3))
model = TicketEncoder()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
criterion = nn.CrossEntropyLoss()

STEPS = 480
done = 0
correct = seen = 0
while done < STEPS:
    for ids, labels in loader:
        logits = model(ids)
        loss = criterion(logits, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        correct += (logits.argmax(-1) == labels).sum().item()
        seen += len(labels)
        done += 1
        if done % 50 == 0:
            print(f"{done:5d}  loss {loss.item():.3f}  acc {correct / seen:.3f}")
            correct = seen = 0
        if done == STEPS:
            break
