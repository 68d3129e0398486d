"""Tells by names and files what writes logs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from perfdoctor.facts.user_source.frames import Frame, Owner

LOGGING_FILES = re.compile(
    r"[/\\](?:tqdm|rich|tensorboard|tensorboardX|wandb|mlflow|neptune|comet_ml|aim|clearml|loguru|logging)"
    r"(?:[/\\]|\.py)"
    r"|[/\\](?:loggers|progress\w*)\.py"
)
# Lightning's: what `self.log` calls, and what gathers the values that it was given.
LIGHTNING_FILES = re.compile(
    r"[/\\](?:lightning|pytorch_lightning)[/\\](?:\w+[/\\])*"
    r"(?:logger_connector[/\\]\w+|(?P<module>core[/\\](?:module|lightning)))\.py$"
)
LIGHTNING_NAMES = frozenset({"log", "log_dict"})
# By which it calls a hook inside the forward of a wrapper around the module, such as DistributedDataParallel.
REDIRECTING_FILES = re.compile(
    r"[/\\](?:lightning|pytorch_lightning)[/\\](?:\w+[/\\])*(?:strategies[/\\]strategy|overrides[/\\]base)\.py$"
)
REDIRECTING_NAMES = frozenset({"wrapped_forward", "forward"})
MODULE_FILE = re.compile(r"torch[/\\]nn[/\\]modules[/\\]module\.py$")
WRITING_FILES = re.compile(r"[/\\](?:csv|json[/\\]\w+)\.py")  # which read as well
WRITING_NAMES = re.compile(r"dump|encode|write|_dict_to_list")
# What a function named log_... takes the logarithm of.
LOGARITHMS = (
    r"(?:probs?|probabilit\w+|likelihoods?|lik|softmax|sigmoid|mel|spec\w*|sum|mean_exp|add|cosh|abs|det|pdf|cdf|"
    r"pmf|densit\w+|normal|gaussian|bernoulli|marginals?|joint|prior|posterior|evidence|partition|odds|ratios?|"
    r"var|variance|std|scale|sigma|alpha|pi|p|q|z|transform|domain|sinkhorn|optimal|map|uniform)(?:_|$)"
)
LOGGING_NAMES = re.compile(
    rf"(?:^|_)(?:log(?!_(?:{LOGARITHMS}))|logs|logging|logger|print|report|progress|dump_metrics|write_metrics)(?:_|$)"
)


def is_of_a_log(frame: Frame) -> bool:
    """Whether a frame of a library's writes what is logged."""
    if WRITING_FILES.search(frame.module_path):
        return WRITING_NAMES.search(frame.name) is not None
    return LOGGING_FILES.search(frame.module_path) is not None or is_of_lightnings_log(frame)


def is_of_a_logger(frame: Frame) -> bool:
    """Whether a frame is of a library for logging: no text that is made to be logged."""
    return frame.owner is not Owner.USER and LOGGING_FILES.search(frame.module_path) is not None


def is_of_lightnings_log(frame: Frame) -> bool:
    """Whether a frame is below a module's `self.log(...)`, or gathers what that was given."""
    found = LIGHTNING_FILES.search(frame.module_path) if frame.owner is Owner.LIBRARY else None
    return found is not None and (found["module"] is None or frame.name in LIGHTNING_NAMES)


def is_redirected(frames: Sequence[Frame]) -> bool:
    """Whether below a wrapper's forward Lightning runs a hook, which calls no module at the moment.

    With one process no forward is around the hook.
    """
    hooks = [index for index, frame in enumerate(frames) if _redirects(frame)]
    return bool(hooks) and not any(MODULE_FILE.search(frame.file) for frame in frames[hooks[-1] :])


def _redirects(frame: Frame) -> bool:
    return frame.name in REDIRECTING_NAMES and REDIRECTING_FILES.search(frame.file) is not None
