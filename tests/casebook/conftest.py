"""Worker processes, and what may come between them and Redis."""

from __future__ import annotations

from tests.redis.conftest import (  # noqa: F401  # fixtures
    ended,
    inspector,
    noted,
    notes,
    own_server,
    proxy,
    start_ready,
    start_worker,
    works,
)
