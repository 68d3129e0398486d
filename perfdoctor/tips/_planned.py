"""Tips that are owed and not there yet, each with what is missing: an honest list beats a guess."""

from __future__ import annotations

from perfdoctor.catalogue import Planned
from perfdoctor.model import Bottleneck

PLANNED: dict[str, Planned] = {
    "idle-hardware": Planned(
        "Buy less of what idles, or more of what is maxed out",
        Bottleneck.COMPUTE,
        "no prices are asked for, and without one an idle resource is no fault",
    ),
    "independent-branches": Planned(
        "Run independent branches side by side",
        Bottleneck.COMPUTE,
        "a trace does not say which kernels depend on each other: a chain looks like branches",
    ),
    "slow-numerics-library": Planned(
        "Give NumPy a fast BLAS, and one thread per worker",
        Bottleneck.DATA,
        "which BLAS NumPy uses, and its threads, are in no record yet",
    ),
    "upload-on-the-link": Planned(
        "Keep uploads off the link that training needs",
        Bottleneck.NETWORK,
        "which process sends how much is not measured yet",
    ),
}
