"""The checker fails when a rule of the protocol is taken out."""

from __future__ import annotations

import pytest

from .machine import explore
from .mutations import MUTATIONS, Mutation
from .wire import Violation

#: Steps within which the missing rule must be noticed; 600 are enough as a rule, and 10,000 seldom too few.
MOST_STEPS = 40_000


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_checker_fails_without_the_rule(new_lab, mutation: Mutation):
    lab = new_lab(mutation.scripts, mutation.rules, mutation.theme)
    with pytest.raises(Violation) as failure:
        explore(lab, 1, MOST_STEPS)
    print(f"{lab.steps} steps: {failure.value}")
    assert failure.value.promise in mutation.promises
