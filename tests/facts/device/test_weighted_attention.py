from __future__ import annotations

from textwrap import indent

import pytest

from perfdoctor.facts.device.weighted_attention import WeightedAttention, weighted_attention
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.runs.types import RankRecords
from tests.support.facts import attention, step
from tests.support.rank_traces import attention as use
from tests.support.records import records

SCRIPT, PACKAGES = "/home/me/train.py", "/home/me/.venv/lib/python3.11/site-packages"
FUNCTIONAL = f"{PACKAGES}/torch/nn/functional.py"
TORCHS = """\
def multi_head_attention_forward(query, key, value, need_weights=True):
    q, k, v = _in_projection_packed(query, key, value)
    if need_weights:
        if attn_mask is not None:
            attn_output_weights = torch.baddbmm(attn_mask, q, k.transpose(-2, -1))
        else:
            attn_output_weights = torch.bmm(q, k.transpose(-2, -1))
        attn_output_weights = softmax(attn_output_weights, dim=-1)
        attn_output = torch.bmm(attn_output_weights, v)
        attn_output = linear(attn_output, out_proj_weight)
        attn_output_weights = attn_output_weights.mean(dim=1)
        return attn_output, attn_output_weights
    attn_output = scaled_dot_product_attention(q, k, v)
    return linear(attn_output, out_proj_weight), None
"""
PROJECTION, SCORES, SOFTMAX, VALUES, OUT, MEAN, FUSED = 2, 7, 8, 9, 10, 11, 13
STEP = step(forward=40, backward=60)
DROPPED = "h, _ = self.attention(h, h, h)"


def source(body: str, after: str = "") -> Sources:
    """A script whose line 2 calls torch's attention."""
    texts = {
        SCRIPT: f"def forward(self, h):\n{indent(body, '    ')}\n    return h\n{after}",
        FUNCTIONAL: TORCHS,
    }

    def line_of(file: str, line: int) -> str | None:
        lines = texts.get(file, "").split("\n")
        return lines[line - 1] if line <= len(lines) else None

    return Sources(line_of)


def sample(
    line: int | None, count: int, caller: str = f"forward ({SCRIPT}:2)", phase: str = "module_call"
) -> tuple[tuple[str, ...], int]:
    """Samples at a line of torch's function; without one, of forward elsewhere."""
    around = ("main", f"<module> ({SCRIPT}:9)", f"{phase} (/opt/perfdoctor/probe/steps.py:100)", caller)
    module = f"MultiheadAttention.forward ({PACKAGES}/torch/nn/modules/activation.py:9)"
    inner = (module, f"multi_head_attention_forward ({FUNCTIONAL}:{line})") if line else ()
    return (*around, *inner), count


SEEN = (sample(PROJECTION, 5), sample(SCORES, 10), sample(SOFTMAX, 15), sample(VALUES, 10), sample(OUT, 5),
        sample(MEAN, 5), sample(None, 50))  # fmt: skip


def found(
    *samples: tuple[tuple[str, ...], int], body: str = DROPPED, after: str = ""
) -> WeightedAttention | None:
    rank: RankRecords = records(stacks=samples).ranks[0]
    return weighted_attention(rank, STEP, source(body, after))


def test_dropped_weights_are_told_with_what_their_scores_and_products_take() -> None:
    calls = found(*SEEN)
    assert calls is not None
    assert [(line.at.line, line.at.text) for line in calls.unused] == [(2, DROPPED)]
    assert (calls.between_share, calls.products_share) == pytest.approx((0.08, 0.08))
    alone = calls.alone(STEP)
    assert alone is not None
    assert alone.unused_weights
    assert [at.line for at in alone.at] == [2]
    assert alone.per_us * alone.uses[0].between_us == pytest.approx(0.2)  # backward included


@pytest.mark.parametrize(
    "body",
    [
        "h, weights = self.attention(h, h, h)",
        "h = h + self.attention(h, h, h)[0]",
        "both = self.attention(h, h, h)\nh = both[0]",
        "h, _ = self.attention(h, h, h, need_weights=True)",
        "h, _ = F.multi_head_attention_forward(h)",
        "h, _ = self.attention(\n    h, h, h, attn_mask=mask)",
    ],
)
def test_ways_to_drop_them(body: str) -> None:
    calls = found(*SEEN, body=body)
    assert calls is not None
    assert calls.unused


@pytest.mark.parametrize(
    ("body", "after"),
    [
        pytest.param("h, w = self.attention(h, h, h)\nself.maps.append(w)", "", id="kept"),
        pytest.param("h, w = self.attention(h, h, h)\nloss = w.square().mean()", "", id="regularised"),
        pytest.param("h, w = self.attention(h, h, h)\nreturn h, w", "", id="returned"),
        pytest.param("h, self.map = self.attention(h, h, h)", "", id="an-attribute"),
        pytest.param("return self.attention(h, h, h)", "", id="both-returned"),
        pytest.param("h, w = self.attention(h, self.get(m)[0], h)\nreturn h, w", "", id="of-an-argument"),
        pytest.param("h, w = self.attention(h, f(h, m, m)[0], h)\nreturn h, w", "", id="of-such-an-argument"),
        pytest.param("both = self.attention(h, h, h)\nreturn both", "", id="both-handed-on"),
        pytest.param("h, _ = self.attention(h, h, h, need_weights=self.maps)", "", id="a-choice"),
        pytest.param("h, _ = self.attention(h, h, h, None, self.maps)", "", id="a-choice-by-place"),
        pytest.param("h, _ = self.attention(h, h, h, **given)", "", id="not-told"),
        pytest.param(DROPPED, "net.attention.register_forward_hook(draw)", id="hooks"),
    ],
)
def test_weights_that_something_may_use_are_no_waste(body: str, after: str) -> None:
    calls = found(*SEEN, body=body, after=after)
    assert calls is not None
    assert calls.unused == ()
    assert calls.alone(STEP) is None
    assert calls.of(attention(use())) is None


@pytest.mark.parametrize(
    "samples",
    [
        pytest.param([sample(PROJECTION, 50), sample(FUSED, 50)], id="no-weights-made"),
        pytest.param([sample(SOFTMAX, 50, phase="validation")], id="validation-only"),
        pytest.param([sample(None, 50)], id="no-attention"),
        pytest.param([], id="no-samples"),
    ],
)
def test_other_calls_are_none(samples: list[tuple[tuple[str, ...], int]]) -> None:
    assert found(*samples) is None


def test_calls_of_libraries_are_not_the_users_to_change() -> None:
    calls = found(sample(SOFTMAX, 50, caller=f"forward ({PACKAGES}/others/layers.py:2)"))
    assert calls is not None
    assert calls.unused == ()


def test_few_samples_tell_no_time() -> None:
    calls = found(sample(SOFTMAX, 9), sample(None, 91))
    assert calls is not None
    assert calls.alone(STEP) is None


def test_of_what_a_window_found_only_the_part_counts_whose_weights_nothing_uses() -> None:
    body = f"{DROPPED}\nh, w = self.attention(h, h, h)\nself.maps.append(w)"
    calls = found(sample(SOFTMAX, 30), sample(SOFTMAX, 10, caller=f"forward ({SCRIPT}:3)"), body=body)
    assert calls is not None
    part = calls.of(attention(use()))
    assert part is not None
    assert part.per_us == pytest.approx(0.75 / 500_000)
    assert [at.line for at in part.at] == [2]
