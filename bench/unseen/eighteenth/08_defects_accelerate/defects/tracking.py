import torch


class Tally:
    """Loss and confusion counts between two log lines."""

    def __init__(self, classes):
        self.classes = classes
        self.clear()

    def clear(self):
        self.losses = []
        self.confusion = torch.zeros(self.classes, self.classes, dtype=torch.long)

    def add(self, loss, logits, labels):
        self.losses.append(loss)
        flat = labels * self.classes + logits.argmax(1)
        self.confusion += torch.bincount(flat, minlength=self.classes**2).view(self.classes, self.classes)

    def flush(self):
        hits = self.confusion.diagonal().float()
        stats = {
            "loss": torch.stack(self.losses).mean().item(),
            "accuracy": (hits.sum() / self.confusion.sum()).item(),
            "recall": (hits / self.confusion.sum(1).clamp(min=1)).mean().item(),
        }
        self.clear()
        return stats
