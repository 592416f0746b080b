"""The size budget of CONTRIBUTING.md: what doesn't fit on a few screens is split."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: Files as they came from elsewhere, or as they are built.
FOREIGN = ("tests/conformance/vendor", "node_modules", "dist")


def files(folder, pattern):
    found = sorted((ROOT / folder).rglob(pattern))
    names = [path.relative_to(ROOT).as_posix() for path in found]
    return [name for name in names if not any(f"/{foreign}/" in f"/{name}" for foreign in FOREIGN)]


def lines_of(name):
    return (ROOT / name).read_text().splitlines()


def functions_of(name):
    for node in ast.walk(ast.parse((ROOT / name).read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.end_lineno - node.lineno + 1


@pytest.mark.parametrize(
    ("folder", "pattern", "budget"),
    [
        ("django_taskq", "*.py", 300),
        ("django_taskq", "*.lua", 60),
        ("tests", "*.py", 500),
        ("scripts", "*.py", 300),
        ("benchmarks", "*.py", 300),
        ("testproject", "*.py", 300),
        ("testproject", "*.js", 300),
        ("clients/node", "*.ts", 300),
        ("clients/node", "*.js", 500),
    ],
)
def test_every_file_is_shorter_than_its_budget(folder, pattern, budget):
    long = {name: len(lines_of(name)) for name in files(folder, pattern) if len(lines_of(name)) >= budget}
    assert not long


@pytest.mark.parametrize(
    ("folder", "pattern"), [("clients/node", "*.[jt]s"), ("testproject", "*.js"), ("tests/node", "*.mjs")]
)
def test_no_line_of_javascript_is_longer_than_those_of_python(folder, pattern):
    lines = [
        (name, number)
        for name in files(folder, pattern)
        for number, line in enumerate(lines_of(name), 1)
        if len(line) > 120
    ]
    assert not lines


@pytest.mark.parametrize("folder", ["django_taskq", "tests", "scripts", "benchmarks", "testproject"])
def test_every_function_is_shorter_than_40_lines(folder):
    long = [(name, *found) for name in files(folder, "*.py") for found in functions_of(name) if found[1] >= 40]
    assert not long
