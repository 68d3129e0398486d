from types import SimpleNamespace

import yaml


def _to_namespace(node):
    if isinstance(node, dict):
        return SimpleNamespace(**{k: _to_namespace(v) for k, v in node.items()})
    return node


def load_config(path, overrides=()):
    with open(path) as fh:
        raw = yaml.safe_load(fh)
    for item in overrides:
        dotted, _, value = item.partition("=")
        *parents, leaf = dotted.split(".")
        node = raw
        for key in parents:
            node = node[key]
        if leaf not in node:
            raise KeyError(f"unknown config key {dotted!r}")
        node[leaf] = yaml.safe_load(value)
    return _to_namespace(raw)
