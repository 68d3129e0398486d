"""Character LSTM with truncated backpropagation; state carried from chunk to chunk."""
import string

import torch
import torch.nn as nn

torch.manual_seed(44)

LINES = ["the quick brown fox jumps over the lazy dog", "pack my box with five dozen liquor jugs",
         "how vexingly quick daft zebras jump", "sphinx of black quartz judge my vow"]
CHARS = string.ascii_lowercase + " \n"
BPTT, BATCH, HIDDEN = 32, 24, 224


def stream(n):
    g = torch.Generator().manual_seed(45)
    picks = torch.randint(0, len(LINES), (n,), generator=g).tolist()
    text = "\n".join(LINES[i] for i in picks)
    return torch.tensor([CHARS.index(c) for c in text])


data = stream(4000)
width = len(data) // BATCH
data = data[:width * BATCH].view(BATCH, width).t().contiguous()


class CharLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(len(CHARS), 64)
        self.lstm = nn.LSTM(64, HIDDEN, num_layers=2, dropout=0.1)
        self.out = nn.Linear(HIDDEN, len(CHARS))

    def forward(self, x, state):
        h, state = self.lstm(self.emb(x), state)
        return self.out(h), state


model = CharLSTM()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
lossf = nn.CrossEntropyLoss()

updates = 0
while updates < 1000:
    state = None
    for start in range(0, len(data) - BPTT - 1, BPTT):
        x, y = data[start:start + BPTT], data[start + 1:start + BPTT + 1]
        logits, state = model(x, state)
        state = tuple(s.detach() for s in state)
        loss = lossf(logits.flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        updates += 1
        print(f"\r{updates:4d} {loss.item():.3f}", end="" if updates % 60 else "\n")
        if updates >= 1000:
            break
