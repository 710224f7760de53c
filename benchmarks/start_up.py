"""How long `import bertology` takes, beside Python's own start and the import of torch and transformers.

python -m benchmarks.start_up [--repeats 5]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

from benchmarks._common import Line, seconds, show


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    show(run(parser.parse_args().repeats))


def run(repeats: int) -> list[Line]:
    """The lines of the table."""
    codes = {"ours": "import bertology", "bare": "pass", "peer": "import torch, transformers"}
    times = {name: [seconds(lambda c=code: _python(c)) for _ in range(repeats)] for name, code in codes.items()}
    own = [ours - bare for ours, bare in zip(times["ours"], times["bare"], strict=True)]
    ratios = [mine / peer for mine, peer in zip(own, times["peer"], strict=True)]
    milliseconds = statistics.median(own) * 1000
    return [
        Line(
            "(f) import bertology ÷ import torch, transformers",
            statistics.median(ratios),
            (min(ratios), max(ratios)),
            "300 ms",
            f"{milliseconds:.0f} ms ÷ {statistics.median(times['peer']) * 1000:.0f} ms",
        )
    ]


def _python(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)


if __name__ == "__main__":
    main()
