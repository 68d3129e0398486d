from __future__ import annotations

import torch
from torch.nn import functional as F
from transformers import Trainer

from averaging import WeightAverage


def class_weights(labels: torch.Tensor, n_classes: int, beta: float = 0.999) -> torch.Tensor:
    """Effective-number weights (Cui et al., 2019)."""
    counts = torch.bincount(labels, minlength=n_classes).clamp_min(1).double()
    weight = (1.0 - beta) / (1.0 - beta**counts)
    return (weight / weight.mean()).float()


class TaxonTrainer(Trainer):
    def __init__(self, *args, average: WeightAverage, weights: torch.Tensor, gamma: float = 1.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.average = average
        self.add_callback(average)
        self.weights = weights
        self.gamma = gamma
        self._eval_collator = None

    def use_eval_collator(self, collator) -> None:
        self._eval_collator = collator

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs["labels"]
        outputs = model(pixel_values=inputs["pixel_values"])
        logp = F.log_softmax(outputs.logits, dim=-1)
        picked = logp.gather(1, labels[:, None]).squeeze(1)
        focal = (1.0 - picked.exp()).pow(self.gamma)
        loss = -(self.weights[labels] * focal * picked).mean()
        return (loss, outputs) if return_outputs else loss

    def get_eval_dataloader(self, eval_dataset=None):
        train_collator = self.data_collator
        self.data_collator = self._eval_collator or train_collator
        try:
            return super().get_eval_dataloader(eval_dataset)
        finally:
            self.data_collator = train_collator

    def evaluate(self, *args, **kwargs):
        with self.average.swapped():
            return super().evaluate(*args, **kwargs)
