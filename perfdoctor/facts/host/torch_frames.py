"""Tells by names and files what a library below the user's line is at, where it is not logging."""

from __future__ import annotations

import re
from collections.abc import Sequence

from perfdoctor.facts.host.logging_frames import MODULE_FILE
from perfdoctor.facts.user_source.frames import Frame, Owner

SAVING_NAMES = re.compile(r"save_(?:checkpoint|model|state|weights|pretrained)|(?:^|_)save\w*_checkpoint")
SAVING_FILES = re.compile(r"torch[/\\]serialization\.py|safetensors[/\\]|[/\\]shutil\.py")
COPYING_FILE = re.compile(r"python\d[^/\\]*[/\\]copy\.py$")  # a copy of the weights computes nothing
# The rest of torch computes; functions that torch.compile is to pass over run below `_fn` of its eval_frame.
TOOLS_OF_TORCH = re.compile(r"torch[/\\](?:utils[/\\]|_dynamo[/\\]eval_frame\.py$)")
TRANSFORMS = re.compile(r"(?:torchvision|torchaudio|kornia)[/\\]")  # whose modules prepare data
# Methods of modules that list what they hold: Python's own work, and none of the device's.
LISTS = re.compile(
    r"_save_to_state_dict|state_dict|named_\w+|_named_members|parameters|buffers|modules|children"
)


def saves(frame: Frame) -> bool:
    """Whether a frame writes a checkpoint."""
    of_library = frame.owner is not Owner.USER and SAVING_FILES.search(frame.module_path) is not None
    return of_library or SAVING_NAMES.search(frame.name) is not None


def computes(beyond: Sequence[Frame]) -> bool:
    """Whether torch computes, other than in its tools."""
    in_torch = any(frame.owner is Owner.TORCH and not TOOLS_OF_TORCH.search(frame.file) for frame in beyond)
    return in_torch and not any(COPYING_FILE.search(frame.file) or lists(frame) for frame in beyond)


def lists(frame: Frame) -> bool:
    """Whether a frame lists what a module holds."""
    return MODULE_FILE.search(frame.file) is not None and LISTS.fullmatch(frame.name) is not None


def calls_model(beyond: Sequence[Frame]) -> bool:
    """Whether a module of torch's is called, other than one that prepares data."""
    called = any(MODULE_FILE.search(frame.file) and not lists(frame) for frame in beyond)
    return called and not any(TRANSFORMS.search(frame.module_path) for frame in beyond)
