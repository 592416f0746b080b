"""Reads JSON lines: medians, and ratios within a round.

Machines drift, so a ratio is taken between two numbers of the same round (and series), and the median of those ratios
is shown, never the ratio of numbers from far apart.
"""

import json
import pathlib
import statistics


def median(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def show(value, digits=None):
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if digits is None:
        digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def grid(head, rows):
    out = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(out + ["| " + " | ".join(row) + " |" for row in rows])


def plan_text(plan):
    return " ".join(f"{key}={value}" for key, value in (plan or {}).items())


class Results:
    """What was measured, by peer and case."""

    def __init__(self, paths):
        self.about, self.errors, self.names, self._by, self._versions = [], [], [], {}, {}
        for series, path in enumerate(paths):
            for text in pathlib.Path(path).read_text().splitlines():
                self._add(json.loads(text), series)
        for key, runs in self._by.items():  # a plan found later replaces an earlier one
            last = runs[-1].get("plan")
            self._by[key] = [line for line in runs if line.get("plan") == last]

    def _add(self, line, series):
        if "variant" not in line:
            self.about.append(line)
            if line["case"] == "versions":
                self._versions[series, line["peer"]] = line
            return
        line["who"] = f"{line['peer']}:{line['variant']}".removesuffix(":default")
        line["turn"] = (series, line.get("round"))
        if "error" in line:
            self.errors.append(line)
        elif line["case"] != "tune":
            self._by.setdefault((line["who"], line["case"]), []).append(line)
            if line["who"] not in self.names:
                self.names.append(line["who"])

    def versions(self, who):
        """Return all versions that a peer was measured with, and what is to be said of it."""
        turns = {line["turn"][0] for (name, _), runs in self._by.items() if name == who for line in runs}
        lines = [self._versions.get((series, who.partition(":")[0]), {}) for series in sorted(turns)]
        found = dict.fromkeys(version for line in lines for version in line.get("requirements", []))
        return list(found), next((line["note"] for line in lines if line.get("note")), None)

    def runs(self, who, case):
        return self._by.get((who, case), [])

    def last(self, who, case):
        runs = self.runs(who, case)
        return runs[-1] if runs else None

    def value(self, who, case, field):
        """Return the median of all rounds, or None."""
        return median([line.get(field) for line in self.runs(who, case)])

    def ratio(self, who, base, case, field="per_s"):
        """Return the median over rounds of who/base, or None."""
        found = {line["turn"]: line.get(field) for line in self.runs(base, case)}
        return median([
            line[field] / found[line["turn"]] for line in self.runs(who, case) if found.get(line["turn"])
        ])  # fmt: skip
