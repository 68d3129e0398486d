from __future__ import annotations

import pytest

from perfdoctor.model.measured import Location
from perfdoctor.trace.measure.user_lines import innermost_line, location


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ("train.py(40): main", Location("train.py", 40, "main")),
        (
            "/home/me/project/models/net.py(7): forward",
            Location("/home/me/project/models/net.py", 7, "forward"),
        ),
        ("evaluate.py(12): <module>", Location("evaluate.py", 12, "<module>")),
        ("datasets/coco.py(3): __getitem__", Location("datasets/coco.py", 3, "__getitem__")),
    ],
)
def test_the_users_own_code_is_located(frame: str, expected: Location) -> None:
    assert location(frame) == expected


@pytest.mark.parametrize(
    "frame",
    [
        "torch/nn/modules/module.py(1501): _call_impl",
        "/opt/env/lib/python3.10/site-packages/torch/optim/sgd.py(117): step",
        "/usr/lib/python3/dist-packages/numpy/core.py(3): f",
        "/usr/lib/python3.11/threading.py(982): run",
        "threading.py(1002): _bootstrap",
        "multiprocessing/queues.py(103): get",
        "transformers/trainer.py(1859): training_step",
        "<frozen importlib._bootstrap>(241): _call_with_frames_removed",
        "<string>(1): <module>",
        "nn.Module: Linear_0",
        "<built-in method item of Tensor object at 0x7f>",
        "/tmp/torchinductor_root/ag/cag.py(18): call",
        "/tmp/torch_geometric.nn.conv.gcn_conv_GCNConv_propagate_xv_4qogx.py(96): propagate",
    ],
)
def test_other_code_is_not(frame: str) -> None:
    assert location(frame) is None


def test_the_innermost_of_a_stack_is_the_first_of_the_users() -> None:
    stack = ("torch/_tensor.py(10): item", "metrics.py(8): accuracy", "train.py(50): main")
    assert innermost_line(stack) == Location("metrics.py", 8, "accuracy")
    assert innermost_line(()) is None
