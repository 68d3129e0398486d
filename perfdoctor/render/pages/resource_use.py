"""What a run used and what would have been enough, and what it cost, each in a line."""

from __future__ import annotations

from collections.abc import Iterator

from perfdoctor.model.report import Report
from perfdoctor.model.resource_use import ResourceUse, UsedResource
from perfdoctor.render import text

HOUR_S = 3600.0


def used(use: ResourceUse) -> str:
    """All resources in a sentence: `1.1 of 4 cores (peak 1.9), 0.41 of 25.3 GB of memory`."""
    parts = [_used(each) for each in use.resources]
    if use.device_busy is not None:
        devices = "the device" if use.devices == 1 else f"{use.devices} devices"
        parts.append(f"{devices} for {text.percent(use.device_busy)} of the time")
    if use.power_w:
        parts.append(f"{text.figures(use.power_w)} W")
    return ", ".join(parts)


def enough(use: ResourceUse) -> str:
    """What would have been enough, where that is at most half of something; memory with some to spare."""
    return " and ".join(
        f"{_amount(each, each.enough)} {'of ' if each.in_bytes else ''}{_name(each)}{_spare(each)}"
        for each in use.resources
        if each.is_idle
    )


def costs(report: Report, price_per_h: float) -> Iterator[str]:
    """What the run cost at a price, an epoch of it, and what the first finding saves of that."""
    yield f"this run {_price(report.run.duration_s, price_per_h)}"
    epoch_s = report.use.epoch_s if report.use is not None else None
    if epoch_s is not None:
        yield f"an epoch {_price(epoch_s, price_per_h)}"
    first = next((found for found in report.findings if found.advice.change is not None), None)
    if first is not None and report.steps is not None and first.gain.likely > 1.0:
        trained_s = report.steps.mean_s * report.steps.count if epoch_s is None else epoch_s
        saved = _price(trained_s * (1.0 - 1.0 / first.gain.likely), price_per_h)
        yield f"finding {first.rank} saves {saved} of {'the run' if epoch_s is None else 'each epoch'}"


def _used(each: UsedResource) -> str:
    if each.in_bytes:
        return f"{_amount(each, each.peak)} of {_amount(each, each.available)} {each.name}"
    mean = "" if each.mean is None else f"{_amount(each, each.mean)} of "
    return f"{mean}{_amount(each, each.available)} {each.name} (peak {_amount(each, each.peak)})"


def _name(each: UsedResource) -> str:
    return each.name.removesuffix("s") if not each.in_bytes and each.enough == 1 else each.name


def _spare(each: UsedResource) -> str:
    """How far what would have been enough is above the peak."""
    spare = each.enough / each.peak - 1.0 if each.in_bytes and each.peak > 0 else 0.0
    return f" ({text.percent(spare)} to spare)" if spare > 0 else ""


def _amount(each: UsedResource, value: float) -> str:
    return text.size(value) if each.in_bytes else text.figures(value)


def _price(seconds: float, price_per_h: float) -> str:
    price = seconds / HOUR_S * price_per_h
    return f"{price:,.2f}" if price >= 0.1 else f"{price:.2g}"
