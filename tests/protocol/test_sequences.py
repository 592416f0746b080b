"""The sequences of the golden vectors hold on each server: the replies, and all that is held after each step."""

from __future__ import annotations

import pytest

from django_taskq.broker import scripts
from tests.protocol.sequences import run
from tests.protocol.vectors import entries


@pytest.mark.leaves_keys("it says itself which keys stay")
@pytest.mark.parametrize("sequence", entries("sequences"), ids=lambda sequence: sequence["name"])
def test_a_sequence_goes_as_described(sequence, server):
    broker = server.broker("vectors")
    run(sequence["steps"], server.client, "vectors", broker.run)


def test_every_script_is_in_a_sequence():
    called = {step.get("script") for sequence in entries("sequences") for step in sequence["steps"]}
    assert called - {None} == set(scripts.names())
