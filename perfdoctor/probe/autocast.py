"""Whether autocast is on, and in which number type."""

from __future__ import annotations

from typing import Any, Optional


def autocast_of(torch: Any, device: str) -> Optional[str]:
    """The number type of autocast where it is on for this kind of device, else None."""
    if not hasattr(torch, "get_autocast_dtype"):  # torch before 2.4
        return None
    return str(torch.get_autocast_dtype(device))[6:] if torch.is_autocast_enabled(device) else None
