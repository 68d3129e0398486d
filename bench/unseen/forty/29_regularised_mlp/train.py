"""Wide network on tabular data with a ridge penalty and early stopping."""
import numpy as np
import torch
import torch.nn as nn
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

SEED = 66


class WideNet(nn.Module):
    def __init__(self, n_in, width=640, depth=4, classes=4):
        super().__init__()
        dims = [n_in] + [width] * depth
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims, dims[1:]))
        self.out = nn.Linear(width, classes)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.out(x)


def decay_term(model, strength):
    """Ridge penalty on all weights."""
    total = torch.zeros(())
    for p in model.parameters():
        total = total + p.abs().pow(2.0).sum()
    return 0.5 * strength * total


class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.best, self.bad = patience, float("inf"), 0

    def __call__(self, value):
        if value < self.best - 1e-4:
            self.best, self.bad = value, 0
        else:
            self.bad += 1
        return self.bad > self.patience


@torch.no_grad()
def evaluate(model, x, y, batch=256):
    model.eval()
    total, hits = 0.0, 0
    for i in range(0, len(x), batch):
        out = model(x[i:i + batch])
        total += nn.functional.cross_entropy(out, y[i:i + batch], reduction="sum").item()
        hits += (out.argmax(1) == y[i:i + batch]).sum().item()
    model.train()
    return total / len(x), hits / len(x)


def main():
    torch.manual_seed(SEED)
    x, y = make_classification(9000, 60, n_informative=30, n_classes=4, class_sep=0.6, random_state=SEED)
    x_tr, x_va, y_tr, y_va = train_test_split(x.astype(np.float32), y, test_size=0.25, random_state=SEED)
    x_tr, x_va, y_tr, y_va = map(torch.from_numpy, (x_tr, x_va, y_tr, y_va))
    model = WideNet(60)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    stop = EarlyStopping(patience=1000)
    step, halted = 0, False
    while step < 2000 and not halted:
        order = torch.randperm(len(x_tr))
        for i in range(0, len(order) - 31, 32):
            idx = order[i:i + 32]
            loss = nn.functional.cross_entropy(model(x_tr[idx]), y_tr[idx]) + decay_term(model, 1e-4)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % 8 == 0:
                val_loss, val_acc = evaluate(model, x_va, y_va)
                halted = stop(val_loss)
            if step % 80 == 0:
                print(f"step {step} train {loss.item():.4f} val {val_loss:.4f} acc {val_acc:.3f}")
            if halted or step >= 2000:
                break


if __name__ == "__main__":
    main()
