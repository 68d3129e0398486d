"""Modules that do not treat each row of a batch by itself, or each call alike."""

from __future__ import annotations

from typing import Any


def drops_out(nn: Any, module: Any) -> bool:
    """Whether a layer sets numbers to zero by chance."""
    if not module.training:
        return False
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return bool(module.p > 0)
    dropout = vars(module).get("dropout", 0)
    return isinstance(dropout, float) and dropout > 0  # of recurrent layers and of attention


def normalises_over_batch(nn: Any, module: Any) -> bool:
    """Whether a layer normalises by what the other rows are."""
    if not isinstance(module, nn.modules.batchnorm._BatchNorm):
        return False
    return bool(module.training or module.running_mean is None)
