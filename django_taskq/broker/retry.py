"""When a failed attempt is tried again: attempt in, delay or None out."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

JITTERS = ("none", "equal", "full")
#: Largest base and cap in seconds, a hundred years; with it every due time is an exact score.
LONGEST_DELAY = 3_155_760_000
#: Attempts after which the delay is the cap.
_LARGEST_EXPONENT = 60


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff, in seconds: ``min(base * factor^(n-1), cap)`` after the n-th attempt, with jitter.

    Jitter ``none`` keeps the delay, ``equal`` takes between half of it and all, ``full`` between nothing and all.
    Source: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """

    base: float = 1
    factor: float = 2
    cap: float = 300
    jitter: str = "equal"

    def __post_init__(self) -> None:
        for name, most in (("base", LONGEST_DELAY), ("factor", sys.float_info.max), ("cap", LONGEST_DELAY)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
                raise ValueError(f"backoff: {name} must be a number from 0 to {most}, not {shown(value)}.")
        if self.jitter not in JITTERS:
            raise ValueError(f"backoff: jitter must be one of {', '.join(JITTERS)}, not {self.jitter!r}.")

    @classmethod
    def parse(cls, value: object) -> RetryPolicy:
        """Return the policy that a number (the same delay each time), a dict or a policy stands for."""
        if isinstance(value, RetryPolicy):
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return cls(base=value, factor=1, cap=value, jitter="none")
        if not isinstance(value, Mapping):
            raise ValueError(f"backoff must be a number of seconds or a dict, not {shown(value)}.")
        known = [field.name for field in fields(cls)]
        if unknown := [key for key in value if key not in known]:
            raise ValueError(f"backoff has no key {unknown[0]!r}; it takes {', '.join(known)}.")
        return cls(**value)

    def to_dict(self) -> dict[str, Any]:
        """Return the language-neutral form that an envelope carries."""
        return asdict(self)

    def delay_ms(self, attempt: int, random: float) -> int:
        """Return the milliseconds to wait after the n-th attempt; `random` is the caller's, from 0 to 1."""
        try:
            power = float(self.factor) ** (attempt - 1) if attempt <= _LARGEST_EXPONENT else math.inf
        except OverflowError:
            power = math.inf
        delay = min(self.base * power, self.cap) if self.base else 0.0
        if self.jitter == "equal":
            delay = delay / 2 + random * delay / 2
        elif self.jitter == "full":
            delay *= random
        return round(delay * 1000)


def shown(value: object) -> str:
    """Return how a value is shown in a message."""
    try:
        return repr(value)
    except ValueError:  # an integer of thousands of digits
        return "such a long number"


def decide(attempt: int, max_attempts: int, policy: RetryPolicy, random: float) -> int | None:
    """Return the milliseconds until the next attempt, or None when all are used up."""
    return None if attempt >= max_attempts else policy.delay_ms(attempt, random)
