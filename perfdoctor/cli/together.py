"""Options that do not go together."""

from __future__ import annotations

from collections.abc import Mapping

from perfdoctor.errors import PerfdoctorError


def refuse(option: str, given: bool, others: Mapping[str, bool]) -> None:
    """Raise PerfdoctorError where one of the others stands beside `option`, which could only drop it.

    `given`: whether `option` itself is there; and so for each of the others.
    """
    if given and (other := next((name for name, it_is in others.items() if it_is), None)):
        raise PerfdoctorError(f"{option} and {other} cannot be combined", f"leave out {other}")
