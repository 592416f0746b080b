"""The command line: `python -m benchmarks [options]` measures; `report FILE...` and `publish FILE...` show."""

import signal
import sys

from benchmarks import page, report, settings
from benchmarks.series import Series


def main(argv):
    if argv[:1] == ["report"]:
        print(report.report(argv[1:]))
        return 0
    if argv[:1] == ["publish"]:
        page.publish(argv[1:])
        return 0
    given = settings.parse(argv)
    # A plain kill must end the servers and workers as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    Series(given).run()
    print("\n" + report.report([given.out]))
    print(f"\nMeasurements: {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
