from __future__ import annotations

from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.facts.user_source.project import project_files
from tests.support.records import source_of

HOME = "/home/me"


def test_what_a_script_imports_belongs_to_it_and_what_that_imports():
    texts = {
        "train": "import torch\nfrom engine import fit\nimport data.loaders as loaders\nimport optim.steps\nfrom marks import *\n",
        "engine": "from hooks import Hook\nfrom train import main\nfrom nets import Net\n",
        "nets/__init__": "from .small import Net",
        "nets/small": "import torch",
        "hooks": "",
        "optim/__init__": "",
        "optim/steps": "",
        "marks": "",
        "data/loaders": "from .samplers import Sampler\nfrom . import shards\n",
        "data/samplers": "from ..hooks import Hook",
        "data/shards": "import numpy",
        "other": "",
    }
    found = project_files([f"{HOME}/train.py"], Sources(source_of(**texts)))
    named = [file.removeprefix(f"{HOME}/").removesuffix(".py") for file in found]
    assert named == [
        *("train", "engine", "data/loaders", "optim/steps", "optim/__init__", "marks"),
        *("hooks", "nets/__init__"),
        *("data/samplers", "data/shards", "nets/small"),
    ]


def test_files_that_cannot_be_read_belong_to_it_and_import_nothing():
    sources = Sources(source_of(train="def ("))
    assert project_files([f"{HOME}/train.py", f"{HOME}/gone.py"], sources) == [
        f"{HOME}/train.py",
        f"{HOME}/gone.py",
    ]
