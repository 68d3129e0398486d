from __future__ import annotations

import pytest

from perfdoctor.facts.host import torch_frames
from perfdoctor.facts.user_source.frames import Frame, Owner

TORCH = "/venv/lib/python3.11/site-packages/torch"


def frames(*places):
    return [Frame(name, f"{TORCH}/{file}", 9, Owner.TORCH) for name, file in places]


@pytest.mark.parametrize(
    ("places", "computes", "calls"),
    [
        ([("_wrapped_call_impl", "nn/modules/module.py"), ("relu", "nn/functional.py")], True, True),
        ([("relu", "nn/functional.py")], True, False),
        (
            [("state_dict", "nn/modules/module.py"), ("_save_to_state_dict", "nn/modules/module.py")],
            False,
            False,
        ),
        (
            [("named_parameters", "nn/modules/module.py"), ("_named_members", "nn/modules/module.py")],
            False,
            False,
        ),
        ([("seed_all", "utils/tools.py")], False, False),
        ([], False, False),
    ],
)
def test_what_lists_the_tensors_of_modules_computes_nothing_and_calls_no_model(places, computes, calls):
    assert torch_frames.computes(frames(*places)) == computes
    assert torch_frames.calls_model(frames(*places)) == calls


def test_saving_is_told_by_torchs_files_and_by_names():
    assert torch_frames.saves(*frames(("save", "serialization.py")))
    assert torch_frames.saves(Frame("save_checkpoint", "/home/me/train.py", 3, Owner.USER))
    assert not torch_frames.saves(*frames(("relu", "nn/functional.py")))
