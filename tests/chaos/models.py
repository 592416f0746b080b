"""What the tasks and producers of a run write to the database. Nothing is unique here: a double must show."""

from __future__ import annotations

from django.db import models


class Order(models.Model):
    """Stands for an enqueue, and is committed or rolled back with it."""

    call = models.CharField(max_length=100)

    def __str__(self) -> str:
        return self.call


class Effect(models.Model):
    """What an atomic task did."""

    call = models.CharField(max_length=100)
    record = models.CharField(max_length=64)
    token = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.call} of {self.record} under {self.token}"
