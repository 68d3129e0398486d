"""Tells by names and files what writes logs."""

from __future__ import annotations

import re

from perfdoctor.facts.user_source.frames import Frame

LOGGING_FILES = re.compile(
    r"[/\\](?:tqdm|rich|tensorboard|tensorboardX|wandb|mlflow|neptune|comet_ml|aim|clearml|loguru|logging)"
    r"(?:[/\\]|\.py)"
    r"|[/\\](?:loggers|progress\w*)\.py"
)
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
    if WRITING_FILES.search(frame.file):
        return WRITING_NAMES.search(frame.name) is not None
    return LOGGING_FILES.search(frame.file) is not None
