"""Float32 matrix products do not use TF32, although the device's tensor cores run it several times faster.

## What it sees
Matrix products or convolutions in float32 take a noticeable share of the time, none of their kernels uses
TF32, and the device's published TF32 rate is at least twice its float32 rate. What the script has switched on
already, as far as that was recorded, is left out.

## By hand
    torch.set_float32_matmul_precision("high")       # at the top of the script
    torch.backends.cudnn.allow_tf32 = True           # convolutions: on by default

## When not
TF32 keeps 10 bits of the mantissa: where a model needs all 23, as in some physics, compare the loss. 16 bits
(autocast) are faster still. Products that memory bounds, as of few samples with many weights, gain nothing:
TF32 moves as many bytes.
"""

from __future__ import annotations

from perfdoctor.facts.device.device import KernelFacts
from perfdoctor.facts.device.rooflines import gone, hoped, moves_bytes, part_of
from perfdoctor.facts.script.backends import Tf32Settings
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.tips.catalogue import tip
from perfdoctor.trace.results import DevicePeak, KernelClass, KernelUse

NOTICEABLE = 0.10  # share of the time; less is not worth a word about precision
WORTH_IT = 2.0  # times the float32 rate: on some devices TF32 is no faster
IN_USE = 0.05  # of a class's 32-bit time in TF32 shows that it is on, and other kernels were chosen beside it
# Where shapes do not tell: of the published rate large products reach about so much. Trainings were said to
# become about three times as fast (huggingface/transformers #14450).
WELL_TUNED = 0.7
LEAST, LIKELY = 1.1, 2.0
SWITCHES = {
    KernelClass.MATMUL: 'torch.set_float32_matmul_precision("high")',
    KernelClass.CONVOLUTION: "torch.backends.cudnn.allow_tf32 = True",
}


@tip(
    title="Use TF32 for float32 matrix products and convolutions",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.FLAG,
    applies=("gpu",),
    rivals=("no-mixed-precision",),
    kernels_only=True,
)
def tf32_off(kernels: KernelFacts, peak: DevicePeak, settings: Tf32Settings) -> Advice | None:
    """Advises TF32 where float32 products take the time and none of their kind uses it."""
    wide, fast = peak.flops_per_s.get("float32"), peak.flops_per_s.get("tf32")
    if not wide or not fast or fast < WORTH_IT * wide:
        return None
    is_on = {KernelClass.MATMUL: settings.products, KernelClass.CONVOLUTION: settings.convolutions}
    plain = [use for kind in SWITCHES if not is_on[kind] for use in _without(kernels, kind)]
    share = min(1.0, kernels.scale * sum(use.us for use in plain))
    kinds = {use.kind for use in plain}
    work = [use for use in kernels.work if use.kind in kinds and use.dtype == "float32"]
    # the bytes stay the same, and what is far from both limits is held up by something else
    able = [use for use in work if not moves_bytes(use, peak)]
    gaining = part_of(able, work) * hoped(able, peak) if work else 1.0
    if share * gaining < NOTICEABLE:
        return None
    most = max(LIKELY, WELL_TUNED * fast / wide)
    guessed = (1 - 1 / LEAST, 1 - 1 / LIKELY, 1 - 1 / most)
    low, likely, high = (share * part for part in gone(work, peak, "tf32") or guessed)
    if likely <= 0:
        return None
    longest = max(plain, key=lambda use: use.us)
    return Advice(
        because=(
            f"{share:.1%} of the time goes into float32 products without TF32",
            f"most of it in {longest.name.split('<')[0].split('(')[0][:80]}",
            f"{peak.device} does {fast / wide:.1f} times as many operations a second in TF32 ({peak.source})",
        ),
        change=removes(low, likely, high),
        tweak="--tf32",
        same_result=False,
        code="\n".join(code for kind, code in SWITCHES.items() if any(use.kind is kind for use in plain)),
        arguments="tf32=True",
    )


def _without(kernels: KernelFacts, kind: KernelClass) -> list[KernelUse]:
    """The float32 kernels of a class in which almost nothing uses TF32."""
    of_kind = [use for use in kernels.kernels if use.kind is kind]
    plain = [use for use in of_kind if use.dtype == "float32" and use.tensor_core is False]
    tf32_us = sum(use.us for use in of_kind if use.dtype == "tf32")
    plain_us = sum(use.us for use in plain)
    return plain if tf32_us < IN_USE * (tf32_us + plain_us) else []
