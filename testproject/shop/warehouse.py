"""A stand-in for the warehouse's service, which takes its time."""

from __future__ import annotations

import asyncio

from .models import Order


async def announce(order: Order) -> str:
    """Announce an order and return the number of its parcel."""
    await asyncio.sleep(0.3)
    return f"KL-{order.pk:06d}"
