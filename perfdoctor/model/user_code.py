"""Which code is the user's own, by the name of its file."""

from __future__ import annotations

import re

# What torch.compile writes: its cache's folder, wherever that is, and the names of files in it.
GENERATED = r"(^|[/\\])torchinductor_[^/\\]+[/\\]|(^|[/\\])c[a-z2-7]{51}\.py$"
# Of an installed package, of Python itself, made by torch, or of no file.
INSTALLED = re.compile(rf"(^|/)(site-packages|dist-packages|lib/python3[\d.]*)/|{GENERATED}|^<")
