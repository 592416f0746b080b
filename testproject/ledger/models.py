"""A payment ledger, which writes down each charge that it is asked for unless a guard refuses it."""

from __future__ import annotations

from django.db import models


class Charge(models.Model):
    guard = models.CharField(max_length=20)
    order = models.PositiveIntegerField()
    #: What a repeat is known by, where the guard looks for it.
    key = models.CharField(max_length=64, null=True, unique=True)  # noqa: DJ001  # charges without one don't clash

    def __str__(self) -> str:
        return f"{self.guard}: order {self.order}"


class Fence(models.Model):
    """The largest fencing token that the ledger has seen for an order."""

    order = models.PositiveIntegerField(unique=True)
    token = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"order {self.order}: {self.token}"
