"""Tags for short texts with accelerate; the areas under all curves are worked out after every step (needs accelerate)."""

# expect: verdict=host finding=slow-postprocessing

import argparse

import numpy as np
import torch
from accelerate import Accelerator
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

TAGS = 24


class Tagger(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(words, width),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, TAGS),
        )

    def forward(self, counts):
        return self.layers(counts)


def texts(count, words):
    """Counts of words in invented texts, and the tags that each of them bears."""
    counts, tags = make_multilabel_classification(count, words, n_classes=TAGS, n_labels=5, random_state=0)
    return TensorDataset(
        torch.from_numpy(counts.astype(np.float32)) / 10, torch.from_numpy(tags.astype(np.float32))
    )


def measures(logits, tags):
    """Mean average precision and mean area under the ROC curve, over the tags that occur."""
    scores, truth = torch.sigmoid(logits).numpy(), tags.numpy()
    mixed = [tag for tag in range(TAGS) if 0 < truth[:, tag].mean() < 1]
    precision = [average_precision_score(truth[:, tag], scores[:, tag]) for tag in mixed]  # <- finding
    area = [roc_auc_score(truth[:, tag], scores[:, tag]) for tag in mixed]  # <- finding
    return np.mean(precision), np.mean(area)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=12_800)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=128)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)  # the matrices are small: more threads would wait for each other
    accelerator = Accelerator(cpu=True)
    model = Tagger(words=500, width=512)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = DataLoader(texts(args.texts, 500), batch_size=args.batch_size, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    history = []
    for epoch in range(args.epochs):
        for step, (counts, tags) in enumerate(loader):
            logits = model(counts)
            loss = nn.functional.binary_cross_entropy_with_logits(logits, tags)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            history.append(measures(logits.detach(), tags))  # <- finding
            if step % 20 == 0:
                accelerator.print(f"epoch {epoch}, step {step}: loss {loss.item():.3f}, {history[-1]}")


if __name__ == "__main__":
    main()
