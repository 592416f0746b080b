"""Puts tables into the published page: what stands between two markers is what the kept measurements say."""

import pathlib
import re

from benchmarks import report, targets
from benchmarks.peer import ROOT
from benchmarks.results import Results

PAGE = ROOT / "docs" / "explanation" / "performance.md"
#: The measurements that the page shows.
KEPT = ROOT / "benchmarks" / "published"

TABLES = {
    "setting": report.setting,
    "targets": targets.table,
    "overview": report.overview,
    "scaling": report.scaling,
    "wrong": report.wrong,
    **{case: lambda results, case=case: report.detail(results, case) for case in report.VALUE},
}
_BLOCK = re.compile(r"(<!-- measured: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)


def kept():
    """Return the files of the published measurements, oldest first."""
    return sorted(KEPT.glob("*.jsonl"))


def filled(text, paths):
    """Return a page with its tables made of these measurements."""
    results = Results(paths)

    def block(found):
        return f"{found[1]}\n{TABLES[found[2]](results)}\n\n{found[3]}"

    return _BLOCK.sub(block, text)


def publish(paths):
    """Keep measurements, and show them on the page."""
    texts = [pathlib.Path(path).read_text() for path in paths]
    KEPT.mkdir(exist_ok=True)
    for old in kept():
        old.unlink()
    for number, text in enumerate(texts, 1):
        (KEPT / f"{number}.jsonl").write_text(text)
    PAGE.write_text(filled(PAGE.read_text(), kept()))
