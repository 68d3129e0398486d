"""Tips that are planned but not written yet, each with what is missing."""

from __future__ import annotations

from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.tip import Planned

PLANNED: dict[str, Planned] = {
    "independent-branches": Planned(
        "Run independent branches side by side",
        Bottleneck.COMPUTE,
        "a trace does not show which kernels depend on each other",
    ),
    "slow-numerics-library": Planned(
        "Give NumPy a fast BLAS, and one thread per worker",
        Bottleneck.DATA,
        "which BLAS NumPy uses, and with how many threads, is not recorded yet",
    ),
    "upload-on-the-link": Planned(
        "Keep uploads off the link that training needs",
        Bottleneck.NETWORK,
        "which process sends how much is not measured yet",
    ),
}
