"""Hooks of saved tensors as they are before anybody watches them, and after a test again."""

from __future__ import annotations

import pytest
import torch

from perfdoctor.probe.saved_tensors import PUSH, REGISTER, HooksGiven, watch_hooks


def unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody watches them, and none were given."""
    for owner, attribute in (
        (torch._C._autograd, PUSH),
        (torch.autograd, PUSH),
        (torch._C._autograd.SavedTensor, REGISTER),
    ):
        monkeypatch.setattr(owner, attribute, getattr(owner, attribute))
    monkeypatch.setattr(HooksGiven, "is_watched", False)
    monkeypatch.setattr(HooksGiven, "ever", False)


def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are watched, as from a script's import of torch on, and none were given."""
    unwatched(monkeypatch)
    watch_hooks(torch)
