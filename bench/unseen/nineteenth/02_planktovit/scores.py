from __future__ import annotations

import numpy as np
from sklearn.metrics import balanced_accuracy_score, f1_score


def taxon_scores(prediction) -> dict[str, float]:
    logits = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
    guess = np.argmax(logits, axis=-1)
    return {
        "balanced_accuracy": float(balanced_accuracy_score(prediction.label_ids, guess)),
        "macro_f1": float(f1_score(prediction.label_ids, guess, average="macro")),
    }
