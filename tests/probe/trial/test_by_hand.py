from __future__ import annotations

from perfdoctor.probe.trial.by_hand import Argument, Autocast, Method, Statement


def test_a_way_is_known_by_what_was_changed_and_to_what() -> None:
    precise = Argument("f", what="float32 in", became="tf32")
    assert precise.fits("float32 in cuDNN", "tf32")
    assert not precise.fits("float32 in cuDNN", "ieee")
    assert not precise.fits("matrix products", "tf32")
    assert Argument("f").fits("anything", None)
    assert Statement("f()", what="float32").fits("float32 in cuDNN", True)
    assert not Statement("f()", what="float32").fits("cuDNN", True)
    assert Method("compile()", "compiled").fits("Net", "compiled")
    assert not Method("compile()", "compiled").fits("Net", "compiled (max-autotune)")


def test_autocast_is_written_for_a_model_that_returns_one_tensor() -> None:
    assert Autocast().fits("Net", "bfloat16 on cuda")
    assert Autocast().context("bfloat16 on cuda") == 'torch.autocast("cuda", dtype=torch.bfloat16)'
    assert not Autocast().fits("Net, which returns tuple", "bfloat16 on cuda")
    assert not Autocast().fits("Net", "float16 on cuda")  # its loss has to be scaled, too
