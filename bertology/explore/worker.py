"""Models that stay loaded, and one thread that computes what is asked for, one view after the other."""

import contextlib
import queue
import re
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from bertology._files import digest
from bertology._machine import explained_shortage
from bertology.activations.progress import Progress
from bertology.encoders.loading import STAY_LOADED
from bertology.errors import BertologyError, cut, quoted
from bertology.explore.panels import PANELS, Loaded, Question

MOST_CHARACTERS = 2000
"""Most characters that a text or setting may have."""
_MOST_WAITING = 128
_MOST_PAGES, _MOST_KEPT = 64, 64_000_000
"""Pages that are kept for the browser, and the sum of their characters."""
_MOST_OF_AN_ERROR = 400
_NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_THREAD = threading.local()
"""``job`` is what the thread computes."""


class Stopped(BaseException):
    """Nobody waits for the view any more; no error that a computation could record and go on after."""


class Job:
    """A view that is asked for: what is being done, and in the end its answer or an error in one line."""

    def __init__(self, question: Question, done: Callable[[], None]) -> None:
        self.question, self._done = question, done
        self.status = "waiting"
        self.answer: Mapping[str, str] = {}
        """The address of the view, the file that it is saved as, and ``command`` and ``python`` that give the same."""
        self.error = ""
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Stop it at the next step, or before it begins."""
        self._cancelled.set()

    def check(self) -> None:
        """Raise :class:`Stopped` where nobody waits any more; called by the computing thread again and again."""
        if self._cancelled.is_set():
            raise Stopped

    def run(self, view: Callable[[Question], Mapping[str, str]]) -> None:
        """Compute the answer."""
        self.status = "computing"
        try:
            self.check()
            with explained_shortage("this view"):
                self.answer = view(self.question)
        except Stopped:
            self.error = "stopped"
        except BertologyError as error:
            self.error = cut(" ".join(str(error).split()), most=_MOST_OF_AN_ERROR)
        except Exception as error:
            self.error = f"this view failed: {type(error).__name__}; the same command may tell more"
            print(f"bertology explore: {self.question.panel}: {error!r}", file=sys.stderr)
        self._done()


class _JobProgress(Progress):
    """Progress as the status of a job, which ends where the job is cancelled."""

    def __init__(self, label: str, job: Job) -> None:
        self._label, self._job, self._unit = label, job, ""
        self._total = self._n_done = 0

    def start(self, total: int, *, unit: str) -> None:
        """Begin to count."""
        self._total, self._unit = total, unit
        self.advance(0)

    def advance(self, amount: int) -> None:
        """Count."""
        self._job.check()
        self._n_done += amount
        self._job.status = f"{self._label}: {self._n_done:,} of {self._total:,} {self._unit}"

    def skip(self, amount: int) -> None:
        """Count what an earlier run did."""
        self.advance(amount)

    def say(self, text: str) -> None:
        """Show what is being done."""
        self._job.check()
        self._job.status = f"{self._label}: {text}"


class Explorer:
    """The thread that computes views, one after the other, and the pages that are kept for the browser."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        loaded.progress = lambda label: _JobProgress(label, self._current)
        self.pages: OrderedDict[str, tuple[Mapping[str, str], str]] = OrderedDict()
        """Pages by name with their answers, the last ones that were asked for."""
        self._jobs: queue.Queue[Job | None] = queue.Queue(_MOST_WAITING)
        self._current = Job(Question("", "", ""), lambda: None)  # which none has asked for
        # Each pass through a model is a place where a view can be stopped.
        self._hooks = [one.model.body.register_forward_pre_hook(_check) for one in loaded.models.values()]
        self._thread = threading.Thread(target=self._work, name="explore", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread after the view that is being computed, which is stopped."""
        self._current.cancel()
        self._jobs.put(None)
        self._thread.join(timeout=10)
        for hook in self._hooks:
            hook.remove()
        STAY_LOADED.clear()

    def question(self, given: Mapping[str, Any]) -> Question:
        """What the browser sends; a BertologyError where it is nothing that a panel asks for, or too long."""
        for name, value in given.items():
            _check_text(str(name)[:20], value)
        if (panel := PANELS.get(name := given.get("panel", ""))) is None:
            raise BertologyError(f"there is no panel {quoted(name)}: {', '.join(PANELS)}")
        texts = {name: " ".join(given.get(name, "").split()) for name in ("text", "second")}
        if not texts["text"]:
            raise BertologyError("type a sentence")
        if panel.needs_second and not texts["second"]:
            raise BertologyError(f"the second box is empty: {panel.second[:1].lower()}{panel.second[1:]}")
        model = _one_of("model", given.get("model", ""), self.loaded.models)
        corpus = _one_of("corpus", given.get("corpus", ""), self.loaded.corpora) if panel.has_corpus else ""
        read = {one.name: one.read(given.get(one.name, "")) for one in panel.settings}
        settings = {name: value for name, value in read.items() if value != ""}
        if "lens" in settings and model not in self.loaded.lenses:
            raise BertologyError(f"there is no tuned lens of {model}: start with --lens FILE")
        lens = self.loaded.lenses[model][0] if settings.pop("lens", "") else None
        second = texts["second"] if panel.second else ""
        return Question(panel.name, texts["text"], model, second, corpus, settings, lens)

    def ask(self, question: Question, done: Callable[[], None]) -> Job:
        """Put a question to the thread, which calls ``done``; a BertologyError where too many are waiting."""
        job = Job(question, done)
        try:
            self._jobs.put_nowait(job)
        except queue.Full:
            raise BertologyError(f"{_MOST_WAITING} questions are waiting: ask again in a moment") from None
        return job

    def _work(self) -> None:
        for panel in PANELS.values():  # the first view of each kind imports and prepares what it needs
            if not panel.has_corpus:
                with contextlib.suppress(Exception):
                    first = {"panel": panel.name, "model": next(iter(self.loaded.models)), **panel.examples[0]}
                    panel.page(self.question(first), self.loaded)
        while (job := self._jobs.get()) is not None:
            self._current = _THREAD.job = job
            job.run(self._view)
            _THREAD.job = None

    def _view(self, question: Question) -> Mapping[str, str]:
        name = digest([repr(question).encode()])
        if (kept := self.pages.get(name)) is None:
            panel = PANELS[question.panel]
            html = panel.page(question, self.loaded)
            about = {"view": f"view/{name}", "file": f"{panel.name}.html", "command": panel.command(question)}
            kept = about | {"python": panel.python(question)}, html
        self.pages[name] = kept
        self.pages.move_to_end(name)
        while len(self.pages) > _MOST_PAGES or sum(len(html) for _, html in self.pages.values()) > _MOST_KEPT:
            self.pages.popitem(last=False)
        return kept[0]


def _check(*_: Any) -> None:
    """Stop at a pass through a model; a function of no object, since hooks are copied with the models of twins."""
    if (job := getattr(_THREAD, "job", None)) is not None:
        job.check()


def _one_of(what: str, name: str, known: Mapping[str, object]) -> str:
    if name not in known:
        raise BertologyError(f"{what} {quoted(name)} is not open: start with --{what} to name it; {', '.join(known)}")
    return name


def _check_text(name: str, value: object) -> None:
    """Refuse what is no text, too long, or holds characters that no text has."""
    if not isinstance(value, str):
        raise BertologyError(f"{quoted(name)}: give a text")
    if len(value) > MOST_CHARACTERS:
        raise BertologyError(f"{name}: {len(value):,} characters; give at most {MOST_CHARACTERS:,}")
    if found := _NO_TEXT.search(value):
        raise BertologyError(f"{name}: it holds the character U+{ord(found[0]):04X}, which no text has")
