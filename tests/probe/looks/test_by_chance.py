from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn

from perfdoctor.probe.looks.by_chance import drops_out, normalises_over_batch


def test_what_draws_in_training_is_told():
    assert drops_out(nn, nn.Dropout(0.1))
    assert drops_out(nn, nn.MultiheadAttention(8, 2, dropout=0.1))
    assert not drops_out(nn, nn.Dropout(0.0))
    assert not drops_out(nn, nn.Dropout(0.1).eval())
    assert not drops_out(nn, nn.Linear(2, 2))


def test_what_normalises_by_the_other_rows_is_told():
    assert normalises_over_batch(nn, nn.BatchNorm1d(4))
    assert not normalises_over_batch(nn, nn.BatchNorm1d(4).eval())
    assert normalises_over_batch(nn, nn.BatchNorm1d(4, track_running_stats=False).eval())
    assert not normalises_over_batch(nn, nn.LayerNorm(4))
