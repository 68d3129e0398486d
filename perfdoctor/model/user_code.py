"""Which code is the user's own, by the name of its file."""

from __future__ import annotations

import re

# Of an installed package, of Python itself, made by torch, or of no file.
INSTALLED = re.compile(r"(^|/)(site-packages|dist-packages|lib/python3[\d.]*|torchinductor_\w+)/|^<")
