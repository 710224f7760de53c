"""Kill runs at random moments, and look for what is left.

    python -m tests.runner.kills [--kills 50] [--seed 0] [--seconds 5]

Five jobs, each killed in turn by SIGTERM, SIGKILL or Ctrl-C at a random moment: ``bertology probe``, ``run`` in one
process and in several, ``compare`` and ``pretrain``. Seconds later none of its processes may be left. Then the same
command runs to its end: no file may be there, in its folder, in the cache or in the folder for temporary files, that a
run which nobody kills does not leave, and tables and weights must be those of such a run.
"""

import argparse
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bertology.corpora import write_conllu
from bertology.encoders import resolve_model
from bertology.pocket import load_corpus
from tests.commands import Commands, assert_same, commands, write_noisy

EXPERIMENT = """\
name: killed
models:
  - {{name: pocket, id: pocket}}
  - {{name: pocket, id: fresh, init: random}}
corpora:
  - {{name: {corpus}, id: tiny}}
tasks: [pos, "feats:Number"]
layers: 0-1
controls: [majority, word_majority, control_task]
statistics: {{resamples: 200}}
outputs: {{plots: []}}
"""
RECIPE = """\
documents: 40
held_out_documents: 10
vocabulary_size: 300
layers: 1
width: 16
heads: 2
inner_width: 32
batch_pieces: 256
steps: 60
learning_rates: [[0, 0], [10, 1.0e-3], [60, 0]]
salience_from: 10
checkpoint_every: 2
evaluate_every: 30
keep_checkpoints: [0, 20, 40]
"""
JOBS = ("probe", "serial", "joblib", "compare", "pretrain")
SIGNALS = (signal.SIGTERM, signal.SIGKILL, signal.SIGINT)
_STATUS = {signal.SIGTERM: 143, signal.SIGKILL: -signal.SIGKILL, signal.SIGINT: 130}
"""Of a command that ends in order; of one that was killed at once it is that of the signal."""


@dataclass
class Killed:
    """What a kill came to."""

    job: str
    by: signal.Signals
    moment: float
    """As a share of the time that the job takes."""
    status: int
    """Exit status; 0 where the job had ended before."""
    ended_s: float = 0.0
    """Seconds from the end of the command to that of the last of its processes."""
    temporary: int = 0
    """Temporary files and folders that were there until the next start."""
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        found = "; ".join(self.wrong) or "ok"
        return (
            f"{self.job:9}{self.by.name:8} at {self.moment:4.0%}  status {self.status:4d}  processes ended after "
            f"{self.ended_s:.1f} s  temporary {self.temporary}  {found}"
        )


class Killer:
    """Runs and kills jobs on small data below a folder."""

    def __init__(self, forked: Commands, folder: Path, *, seconds: float = 5.0) -> None:
        self._forked, self._folder, self._seconds = forked, folder, seconds
        corpus, self._whole = folder / "tiny", dict[str, float]()
        corpus.mkdir(parents=True)
        for split, size in (("train", 80), ("dev", 20), ("test", 30)):
            write_conllu(corpus / f"tiny-ud-{split}.conllu", load_corpus()[split][:size])
        (folder / "experiment.yaml").write_text(EXPERIMENT.format(corpus=corpus))
        (folder / "recipe.yaml").write_text(RECIPE)
        write_noisy(resolve_model("pocket").folder, folder / "noisy")
        run = ["run", folder / "experiment.yaml"]
        self._arguments: dict[str, Sequence[object]] = {
            "probe": ["probe", "--task", "pos", "--layers", "0-1", "--corpus", corpus],
            "serial": [*run, "--engine", "serial"],
            "joblib": [*run, "--jobs", "2"],
            "compare": [
                *("compare", "pocket", folder / "noisy", "--corpus", corpus, "--layers", "0-1"),
                *("--measures", "frozen_probe,vectors,weights,masked_loss"),
            ],
            "pretrain": ["pretrain", folder / "recipe.yaml", "--threads", "1"],
        }

    def kill(self, job: str, *, at: float | None = None, by: signal.Signals, name: str, like: str = "") -> Killed:
        """Kill a job after a share ``at`` of the time it takes, let it go on, and compare.

        Args:
            job: one of ``JOBS``.
            at: when, from 0 to 1; as soon as its first cell is finished where it is None.
            by: SIGTERM, SIGKILL or SIGINT.
            name: of the folder to do so in.
            like: the job whose run, which nobody kills, it is compared with; by default the same job.
        """
        like = like or job
        whole, folder = self._folder / like, self._folder / name
        if like not in self._whole:
            self._whole[like] = self._undisturbed(like, whole)
        running = self._forked.start(folder, *self._arguments[job], "--out", folder / "out")
        if at is None:
            _wait_for_a_cell(folder / "out")
        killed = Killed(job, by, at or 0.0, running.wait(die_after=(at or 0.0) * self._whole[like], by=by))
        if killed.status == 0:
            self._whole[like] = min(self._whole[like], running.seconds)  # a machine that was busy before
        elif killed.status not in (-by, _STATUS[by]):
            killed.wrong.append(f"exit status {killed.status}: {running.errors}")
        if "Traceback" in running.errors or (by == signal.SIGINT and "Warning" in running.errors):
            killed.wrong.append(running.errors)
        self._look(killed, running.pid)
        killed.temporary = sum(path.endswith(".tmp") for path in _files(folder))
        if status := self._forked.run(folder, *self._arguments[job], "--out", folder / "out"):
            killed.wrong.append(f"not resumed: exit status {status}")
        else:
            self._compare(killed, folder, whole)
        return killed

    def _undisturbed(self, job: str, whole: Path) -> float:
        running = self._forked.start(whole, *self._arguments[job], "--out", whole / "out")
        if status := running.wait():
            raise RuntimeError(f"{job}: exit status {status}: {running.errors}")
        return running.seconds

    def _look(self, killed: Killed, pid: int) -> None:
        began = time.monotonic()
        while (left := self._forked.left()) and time.monotonic() - began < self._seconds:
            time.sleep(0.05)
        killed.ended_s = time.monotonic() - began
        if left:
            killed.wrong.append(f"{len(left)} processes left after {self._seconds} s: {list(left.values())}")
        # What is shared between processes is named by the first of them.
        if shared := [path.name for path in Path("/dev/shm").glob(f"*[-_]{pid}[-_]*")]:
            killed.wrong.append(f"left in shared memory: {shared}")

    def _compare(self, killed: Killed, folder: Path, whole: Path) -> None:
        if left := sorted(_files(folder) ^ _files(whole)):
            killed.wrong.append(f"other files: {left}")
        try:
            if killed.job == "pretrain":
                weights = [place / "out" / "model.safetensors" for place in (folder, whole)]
                assert weights[0].read_bytes() == weights[1].read_bytes()
            else:
                assert_same(folder / "out", whole / "out")
        except AssertionError as error:
            killed.wrong.append(f"other results: {error}")


def _wait_for_a_cell(out: Path) -> None:
    deadline = time.monotonic() + 120
    while not list(out.glob("cells/*.jsonl")):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{out} has no cell after two minutes")
        time.sleep(0.01)


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def main() -> None:
    """Kill as often as asked; exit status 1 if anything was left or other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=5.0, help="how long processes may take to end")
    given = parser.parse_args()
    draw, found, attempts = random.Random(given.seed), list[Killed](), 0
    with tempfile.TemporaryDirectory() as folder, commands() as forked:
        killer = Killer(forked, Path(folder), seconds=given.seconds)
        while len(found) < given.kills:
            attempts += 1
            job, by = JOBS[len(found) % len(JOBS)], draw.choice(SIGNALS)
            killed = killer.kill(job, at=draw.random(), by=by, name=f"kill-{attempts}")
            if killed.status:
                found.append(killed)
                print(f"{len(found):3d}  {killed}", flush=True)
    names = "".join(f"{by.name:>8}" for by in SIGNALS)
    print(f"{'':9}{names}{'processes ended':>17}{'temporary before':>18}{'wrong':>6}")
    for job in JOBS:
        kills = [killed for killed in found if killed.job == job]
        n = "".join(f"{sum(killed.by == by for killed in kills):8d}" for by in SIGNALS)
        ended = max((killed.ended_s for killed in kills), default=0.0)
        temporary, wrong = sum(killed.temporary for killed in kills), sum(bool(killed.wrong) for killed in kills)
        print(f"{job:9}{n}{ended:15.1f} s{temporary:18d}{wrong:6d}")
    sys.exit(any(killed.wrong for killed in found))


if __name__ == "__main__":
    main()
