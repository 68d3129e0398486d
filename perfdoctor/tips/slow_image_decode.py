"""Batches arrive late because decoding images, sound or video takes most of their cost.

## What it sees
The step waits for batches, and most of a batch's cost is in an image, audio or video library: decoding, and
shrinking what was decoded at full size.

## By hand
    image = Image.open(path)
    image.draft("RGB", (2 * size, 2 * size))   # JPEG: decodes at 1/2, 1/4 or 1/8 of the size
    image = image.convert("RGB").resize((size, size))

or `torchvision.io.decode_jpeg` and `simplejpeg`, which decode faster; or a copy of the dataset, made once, at
the size that training uses; on a GPU, `torchvision.io.decode_jpeg(..., device="cuda")`.

## When not
Where training crops small regions out of large images, full size is needed. Other decoders round differently:
pixels can differ by one or two steps.
"""

from __future__ import annotations

from perfdoctor.facts.user_source.library_table import called
from perfdoctor.model.batch import BatchFacts, Stage, StageCost, waits
from perfdoctor.model.change import Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.10  # share of step time that waits
MOST_OF_IT = 0.40  # of a batch's cost
DECODED = 0.15  # of a batch's cost in the decoder itself: below it, resizing small images is something else
MEDIA = ("image", "audio", "video")
# What is left of the decoding: with a faster decoder of the same files, 1/1.2 to 1/1.5 (arXiv:2501.13131 and
# the tables of arXiv:2605.08731: up to 1.5 times as fast as Pillow); with draft mode or copies of half the
# size, a quarter of the pixels, and of a quarter of the size, a sixteenth.
KEPT = (1 / 1.2, 0.5, 0.1)
COPIES = "copies of the images, made once, at the size that training uses"
IMAGES = {
    "PIL": "image.draft('RGB', (2 * size, 2 * size))  # before convert(); of JPEG only: decodes it smaller\n"
    f"or, of JPEG, torchvision.io.decode_jpeg or simplejpeg; of any, {COPIES}",
    "torchvision": f"torchvision.io.decode_jpeg(data, device='cuda')  # on a GPU\nor: {COPIES}",
    "cv2": f"cv2.imread(path, cv2.IMREAD_REDUCED_COLOR_2)  # decodes at half the size\nor: {COPIES}",
}
FIXES = {
    "audio": "decode once, at the rate that training uses, into a .npy file or memory map, and slice that",
    "video": "extract the needed frames once, or decode in order with one open reader per worker",
}


@tip(
    title="Decode less, or with a faster decoder",
    bottleneck=Bottleneck.DATA,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
)
def slow_image_decode(step: StepFacts, batch: BatchFacts) -> Advice | None:
    """Names the line that decodes, where decoding is most of the cost of batches the step waits for."""
    decoded = batch.share(Stage.DECODING, *MEDIA)
    shrunk = batch.share(Stage.TRANSFORMING, "image")
    share = min(1.0, decoded + shrunk)
    if step.data_stall < NOTICEABLE or decoded < DECODED or share < MOST_OF_IT:
        return None
    cost = batch.of(Stage.DECODING, *MEDIA)[0]
    lines = batch.lines(Stage.DECODING, *MEDIA) or batch.lines(Stage.TRANSFORMING, "image")
    low, likely, high = sorted(share * (1 - kept) for kept in KEPT)
    by = f" by {cost.library}" if cost.library else ""
    also = f", {shrunk:.0%} is converting and resizing" if shrunk >= 0.01 else ""
    return Advice(
        because=(
            waits(step),
            f"{decoded:.0%} of a batch's {batch.batch_s * 1e3:.1f} ms is decoding ({cost.kind}){by}{also}",
        ),
        change=Change(batch=Estimate(low, likely, high)),
        at=tuple(line.at for line in lines[:3]),
        same_result=False,
        code=_fix(cost, lines[0].at.statement if lines else None),
    )


def _fix(cost: StageCost, text: str | None) -> str:
    """What decodes less with the library at the line."""
    library = "cv2" if any(name in called(text) for name in ("cv2.imread", "cv2.imdecode")) else cost.library
    return FIXES[cost.kind] if cost.kind in FIXES else IMAGES.get(library or "", f"use {COPIES}")
