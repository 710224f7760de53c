import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from bertology.errors import BertologyError, NameNotFoundError
from bertology.probing import ProbeFamily, get_probe, registered_probes

Register = Callable[..., None]

THIRD_PARTY = """
from dataclasses import dataclass
from bertology.corpora import Sentences
from bertology.probing import Examples, ProbeFamily, RepresentationProbe, layer_examples

@dataclass(frozen=True)
class Lemmas(RepresentationProbe):
    task: str = "lemma_class"
    version: int = 1
    question = "Which lemma?"
    reference = "nobody, never"
    readout = "linear.v1"
    metrics = ("accuracy",)

    def examples(self, sentences: Sentences) -> Examples:
        return layer_examples(sentences, "lemma")

FIRST = Lemmas()
SECOND = Lemmas(version=2)
TENTH = Lemmas(version=10)
FAMILY = ProbeFamily("thing", ("a", "b"), "Which?", "nobody", lambda argument: Lemmas("things:" + argument, 1))
PLAIN = ProbeFamily("thing", ("a",), "Which?", "nobody", lambda name: Lemmas("plain:" + name, 1), Lemmas("plain"))
ASTRAY = ProbeFamily("thing", ("a",), "Which?", "nobody", lambda name: Lemmas("other:" + name, 1), Lemmas())
STRAY = ProbeFamily("thing", ("a", "b"), "Which?", "nobody", lambda argument: Lemmas("other:" + argument, 1))
NOTHING = 3
"""


@pytest.fixture
def register(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Register:
    """Replace the probes that are installed by entry points into a module of one's own."""
    (tmp_path / "their_probes.py").write_text(THIRD_PARTY)
    (tmp_path / "their_broken_probes.py").write_text("raise RuntimeError('two\\nlines')")
    monkeypatch.syspath_prepend(str(tmp_path))

    def replace(**targets: str) -> None:
        points = [
            EntryPoint(name.replace("__", "."), target, "bertology.probes")
            for name, both in targets.items()
            for target in both.split("|")
        ]
        monkeypatch.setattr(
            "bertology._names.entry_points",
            lambda group: [point for point in points if point.group == group],
        )

    return replace


def test_our_own_probes_come_through_their_entry_points() -> None:
    names = set(registered_probes())
    assert {"pos.v1", "xpos.v1", "ner.v1", "chunk.v1", "feats.v1", "deprel.v1"} <= names
    for name in names:
        loaded = registered_probes()[name].load()
        assert loaded.question.endswith("?"), name
        assert loaded.reference, name
        if isinstance(loaded, ProbeFamily):
            assert get_probe(f"{name}:{loaded.instances[0]}").task.partition(":")[0] == name.partition(".")[0]
        else:
            assert f"{loaded.task}.v{loaded.version}" == name
            assert get_probe(name) == loaded


def test_the_core_does_not_import_probes_until_one_is_asked_for() -> None:
    import subprocess

    code = (
        "import bertology.probing, sys; bertology.probing.registered_probes(); print('bertology_probes' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


def test_the_newest_version_is_meant_unless_one_is_named(register: Register) -> None:
    # 10 is newer than 2, though not by the alphabet.
    register(
        lemma_class__v1="their_probes:FIRST",
        lemma_class__v2="their_probes:SECOND",
        lemma_class__v10="their_probes:TENTH",
    )
    assert get_probe("lemma_class").version == 10
    assert get_probe("lemma_class.v1").version == 1
    assert get_probe("lemma_class.v2").version == 2


def test_a_probe_of_an_installed_distribution_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # installed while the process runs, as in a notebook
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(NameNotFoundError):
        get_probe("lemma_class")
    (tmp_path / "their_installed_probes.py").write_text(THIRD_PARTY)
    metadata = tmp_path / "their_probes-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: their-probes\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[bertology.probes]\nlemma_class.v1 = their_installed_probes:FIRST\n")
    assert get_probe("lemma_class").question == "Which lemma?"
    assert get_probe("pos").task == "pos"


def test_two_packages_with_one_name_are_an_error_that_names_both(register: Register) -> None:
    register(lemma_class__v1="their_probes:FIRST|their_probes:SECOND")
    with pytest.raises(BertologyError, match=r"lemma_class\.v1: their_probes:FIRST and their_probes:SECOND"):
        registered_probes()


@pytest.mark.parametrize(("name", "near"), [("poss", "pos"), ("dep-rel", "deprel"), ("feat:Number", "feats")])
def test_an_unknown_name_is_answered_with_the_nearest(name: str, near: str) -> None:
    with pytest.raises(NameNotFoundError, match=rf"unknown task '.*': did you mean .*\b{near}\b"):
        get_probe(name)


def test_arguments_are_asked_for_and_refused() -> None:
    assert get_probe("feats: Number ").task == "feats:Number"
    assert get_probe("feats.v1:Tense").task == "feats:Tense"
    with pytest.raises(BertologyError, match="'feats' needs a UD feature after a colon, such as feats:Number"):
        get_probe("feats")
    with pytest.raises(BertologyError, match="'feats' needs a UD feature"):
        get_probe("feats:")
    with pytest.raises(BertologyError, match="'pos' takes no argument: write pos instead of pos:X"):
        get_probe("pos:X")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("their_broken_probes:PROBE", "cannot be imported \\(RuntimeError"),
        ("their_absent_probes:PROBE", "cannot be imported \\(ModuleNotFoundError"),
        ("their_probes:ABSENT", "cannot be imported \\(AttributeError"),
        ("their_probes:NOTHING", "is of type int; it should be a RepresentationProbe"),
        ("their_probes:SECOND", r"calls itself lemma_class\.v2"),
    ],
)
def test_a_broken_plugin_is_told_when_it_is_asked_for(target: str, message: str, register: Register) -> None:
    register(lemma_class__v1=target, other__v1="their_probes:FIRST")
    assert "lemma_class.v1" in registered_probes()
    with pytest.raises(BertologyError, match=message):
        get_probe("lemma_class")


def test_a_family_may_have_a_probe_without_an_argument(register: Register) -> None:
    register(plain__v1="their_probes:PLAIN", things__v1="their_probes:FAMILY", astray__v1="their_probes:ASTRAY")
    assert [get_probe(name).task for name in ("plain", "plain.v1", "plain:a")] == ["plain", "plain", "plain:a"]
    with pytest.raises(
        BertologyError, match=r"^task 'things' needs a thing after a colon, such as things:a or things:b$"
    ):
        get_probe("things")
    with pytest.raises(BertologyError, match=r"^probe astray\.v1: .* calls itself lemma_class\.v1; register it under"):
        get_probe("astray")
