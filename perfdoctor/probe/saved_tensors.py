"""Whether what a node of the graph saved can be asked for without running code of others.

A script may give hooks that pack what is saved and unpack it again: checkpoint does, to compute it a second
time. Newer versions of torch tell of a saved tensor whether it has such hooks. With torch 2.8 and older,
this process remembers whether anybody ever gave any: then nothing is asked for.
"""

from __future__ import annotations

from typing import Any

from . import patch

NAME = "saved tensors"
PUSH, REGISTER = "_push_saved_tensors_default_hooks", "register_hooks"  # the ways to give them


class HooksGiven:
    """Of one process, where saved tensors themselves do not tell."""

    is_watched = False  # before that, nobody knows
    ever = False


def watch_hooks(torch: Any) -> None:
    """Notice from now on whether hooks are given, if saved tensors do not tell."""
    autograd = torch._C._autograd
    if HooksGiven.is_watched or hasattr(autograd.SavedTensor, "unpack_hook"):
        return
    owners = [(autograd, PUSH), (torch.autograd, PUSH), (autograd.SavedTensor, REGISTER)]
    originals = [getattr(owner, attribute) for owner, attribute in owners]
    for owner, attribute in owners:
        patch.wrap(owner, attribute, _given, lambda *end: None, NAME)
    HooksGiven.is_watched = all(
        getattr(owner, attribute) is not original for (owner, attribute), original in zip(owners, originals)
    )


def _given(args: Any, kwargs: Any) -> None:
    HooksGiven.ever = True


def is_saved_plainly(saved: Any) -> bool:
    """Whether asking a node for a saved tensor calls no code of the script or of checkpoint.

    That might compute it again, or take it from where it was put. `saved` is the `_raw_saved_...`.
    """
    if hasattr(saved, "unpack_hook"):
        return saved.unpack_hook is None
    return HooksGiven.is_watched and not HooksGiven.ever
