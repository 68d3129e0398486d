"""Next-word model on a chat dump in JSON lines."""
import json
import os
import random
import tempfile

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

LENGTH = 32
VOCAB = 1200


def dump_chat(path, n=9000):
    rnd = random.Random(4)
    words = [f"w{i}" for i in range(VOCAB)]
    with open(path, "w") as f:
        for i in range(n):
            at, text = rnd.randrange(VOCAB), []
            for _ in range(LENGTH + 1):
                text.append(words[at])
                at = (at * 3 + rnd.randrange(5)) % VOCAB
            f.write(json.dumps({"id": i, "user": f"u{i % 97}", "text": " ".join(text)}) + "\n")


class ChatLines(Dataset):
    def __init__(self, path):
        self.path = path
        with open(path) as f:
            self.lines = f.readlines()
        self.length = len(self.lines)
        self.vocab = {f"w{i}": i for i in range(VOCAB)}

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        record = json.loads(self.lines[i])
        return torch.tensor([self.vocab[w] for w in record["text"].split()])


class WordModel(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.dim = dim
        self.emb = nn.Embedding(VOCAB, dim)
        self.cell1 = nn.LSTMCell(dim, dim)
        self.cell2 = nn.LSTMCell(dim, dim)
        self.out = nn.Linear(dim, VOCAB)

    def forward(self, ids):
        b, t = ids.shape
        h1 = c1 = h2 = c2 = torch.zeros(b, self.dim)
        logits = []
        for k in range(t):
            x = self.emb(ids[:, k])
            h1, c1 = self.cell1(x, (h1, c1))
            h2, c2 = self.cell2(h1, (h2, c2))
            logits.append(self.out(h2))
        return torch.stack(logits, 1)


def main():
    torch.manual_seed(4)
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "chat.jsonl")
        dump_chat(path)
        loader = DataLoader(ChatLines(path), batch_size=32, shuffle=True, drop_last=True)
        model = WordModel()
        opt = torch.optim.Adam(model.parameters(), lr=2e-3)
        step = 0
        for epoch in range(2):
            for ids in loader:
                logits = model(ids[:, :-1])
                loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                opt.step()
                step += 1
                if step % 50 == 0:
                    print(f"epoch {epoch} step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
