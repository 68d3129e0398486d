"""Images are converted to float32 on the host, so four times the stored bytes are collated and cross the bus.

## What it sees
Batches of float32 images are copied to the device, and stack samples show the line of the dataset that
converts them to float. Their copies keep the device waiting for a noticeable share of the time, or the step
waits for batches: torch's collating, and the one thread that pins batches, take as long as the bytes ask for.

## By hand
    # in the dataset: return the uint8 tensor as decoded
    images = images.to(device, non_blocking=True).float().div_(255).sub_(mean).div_(std)

## When not
Images of more than 8 bits, or whose transform needs floats on the host, cannot be sent as uint8; float16
halves the bytes there.
"""

from __future__ import annotations

import re

from perfdoctor.facts.device.device import CopyFacts, at_line
from perfdoctor.model.batch import BatchFacts, Stage, waits
from perfdoctor.model.change import Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import Phase, StepFacts
from perfdoctor.tips.catalogue import tip
from perfdoctor.trace.results import CopySite

NOTICEABLE = 0.03  # share of the time; less drowns in step-to-step noise
IMAGES = 4  # dimensions: batch, channels, height, width
CHANNELS = (1, 3, 4)  # grey, colour, with transparency
BYTES = {"float32": 4.0, "float64": 8.0}  # for each of a stored uint8
# Lines that convert stored images to float.
CONVERTS = re.compile(
    r"to_?tensor\(|convert_image_dtype|to_dtype\(|\.float\(\)|astype\((np\.|numpy\.)?[\"']?float|"
    r"/=? *255|normalize\(",
    re.IGNORECASE,
)
STAGES = (Stage.TRANSFORMING, Stage.DECODING)  # a decoder is asked for floats, or they are made from it
SEEN = 10  # samples of batches being prepared: fewer may all be of one slow batch
KEPT_ON_HOST = 0.5  # of that line's time may be decoding or cropping, which stay
WAITS = 0.10  # share of step time that waits for batches
COPYING = ("torch", "numpy")  # collate functions that copy samples into one batch, and do nothing else
SURE = 0.5  # of what its bytes take, at least: a batch has a fixed cost, too
SHOWN = 2  # lines named


@tip(
    title="Copy images as uint8 and convert them to float on the device",
    bottleneck=Bottleneck.TRANSFER,
    effort=Effort.LINES,
    applies=("gpu",),
)
def float_batches_over_the_bus(step: StepFacts, copies: CopyFacts, batch: BatchFacts) -> Advice | None:
    """Advises copying uint8 where float images keep the device waiting: on the bus, or in the loader."""
    batches = [site for site in copies.sites if _is_images(site)]
    share = min(1.0, copies.per_us * sum(site.exposed_us + site.idle_us for site in batches))
    work = (line for stage in STAGES for line in batch.lines(stage))
    lines = [line for line in work if CONVERTS.search(line.at.statement or "")]
    waiting = step.share(Phase.DATA_WAIT)
    if not batches or max(share / NOTICEABLE, waiting / WAITS) < 1 or batch.samples < SEEN or not lines:
        return None
    less = 1 - 1 / min(BYTES[site.dtype or ""] for site in batches)
    converting = min(1.0, sum(line.share for line in lines))
    collating = sum(cost.share for cost in batch.of(Stage.COLLATING) if cost.library in COPYING)
    shape, top = list(batches[0].shape), lines[0]
    return Advice(
        because=(
            f"the device waits {share:.1%} of the time for batches of {shape} in {batches[0].dtype}",
            *((waits(step),) if waiting >= WAITS else ()),
            f"{converting:.0%} of a batch's cost is{at_line(top.at)}, which converts them to float",
            f"as uint8 they would be {1 - less:.0%} of the bytes"
            + (f", {collating:.0%} of a batch's cost is collating them" if collating >= NOTICEABLE else ""),
        ),
        change=Change(
            step=_of_bytes(less, share),
            batch=Estimate(
                SURE * less * collating,
                KEPT_ON_HOST * converting + less * collating,
                min(1.0, converting + less * collating),
            ),
            handed=_of_bytes(less, 1.0),
        ),
        at=(*(line.at for line in lines[:SHOWN]), *(site.at for site in batches[:1] if site.at is not None)),
        same_result=False,
        bottleneck=Bottleneck.DATA if waiting > share else None,
        also=(Bottleneck.TRANSFER,) if waiting > share else (),
        code="images = images.to(device, non_blocking=True).float().div_(255)  # normalise here, too",
    )


def _of_bytes(less: float, share: float) -> Estimate:
    """What goes of a share that batches take by their bytes, if these are so much less."""
    return Estimate(SURE * less * share, less * share, less * share)


def _is_images(site: CopySite) -> bool:
    return (
        site.direction == "HtoD"
        and site.dtype in BYTES
        and len(site.shape) == IMAGES
        and (site.shape[1] in CHANNELS or site.shape[3] in CHANNELS)
    )
