"""Which code is the user's own, by the name of its file."""

from __future__ import annotations

import re

# What torch.compile writes: its cache's folder, wherever that is, and the names of files in it; and what
# torch_geometric writes for each kind of layer, into the folder for temporary files.
GENERATED = (
    r"(^|[/\\])torchinductor_[^/\\]+[/\\]|(^|[/\\])c[a-z2-7]{51}\.py$|_(?:propagate|edge_updater)_\w{8}\.py$"
)
# Of an installed package, of Python itself, generated, or of no file.
INSTALLED = re.compile(rf"(^|/)(site-packages|dist-packages|lib/python3[\d.]*)/|{GENERATED}|^<")
