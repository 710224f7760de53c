"""Of commands, one a line, those that the experiments of a folder do not run anyway.

    python left_to_run.py EXPERIMENTS < COMMANDS

A command `bertology probe --task …` is left out where experiments have each of its tasks, unless it names a readout, a
model, or a folder that other commands read.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import yaml


def tasks_of(folder: Path) -> set[str]:
    """The tasks of all experiments of a folder, without what a colon adds to them."""
    tasks: set[str] = set()
    for path in folder.glob("*.yaml"):
        listed: list[Any] = yaml.safe_load(path.read_text(encoding="utf-8")).get("tasks") or []
        names = [one if isinstance(one, str) else one["name"] for one in listed]
        tasks |= {name.partition(":")[0] for name in names}
    return tasks


def main() -> None:
    """Print the commands that are left."""
    run = tasks_of(Path(sys.argv[1]))
    for line in sys.stdin:
        found = re.match(r"bertology probe --task (\S+)", line)
        tasks = found[1].replace("-", "_").split(",") if found else []
        is_run = found and all(task.partition(":")[0] in run for task in tasks)
        if not is_run or re.search(r"--(model|out|readout|reference|pool)\b", line):
            sys.stdout.write(line)


if __name__ == "__main__":
    main()
