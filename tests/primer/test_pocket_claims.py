"""Verdicts on the pocket world: what its grammar and training text make true holds, what they make false fails."""

from __future__ import annotations

import signal
from pathlib import Path

import pandas as pd
import pytest

from bertology.primer import load_claims, primer
from bertology.primer.run import Primer
from bertology.runner import RunOptions
from tests.commands import commands

HOLDS = {
    "pos": "112 of its nouns, verbs and adjectives belong to two or three classes, which only the context decides",
    "chunk": "a determiner or adjective may begin a noun phrase or stand inside it, which the words before it decide",
    "trees": "each sentence is derived by the grammar, whose brackets the order of the words follows",
    "agreement": "in the training text every finite verb agrees with its subject",
    "facts": "the training text states most facts twice or more",
    "long-answers": "the same facts, among the towns, countries or trades alone",
    "negation": "the training text states facts and hardly ever denies them, so that the words of a fact go together",
    "fitting-roles": "verbs take persons, animals and things that cannot change places",
    "position": "position and segment are added to the vectors of words, and all that follows depends on both",
}
FAILS = {
    "paraphrases": "the training text states each fact in all of its wordings",
    "misprimes": "a fact is about its subject, which stands next to the mask, whatever stands before the sentence",
}
NEVER_HOLDS = {
    "malformed": "a context that is cut short no longer names the subject, and the fact is another one",
    "name-guesses": "no name of a person holds that of a town, a country or a trade",
    "alignment": "the encoder never read the second language, which shares no word with the first",
    "transfer": "the encoder never read the second language, which shares no word with the first",
}
NOT_TESTED = {
    "nonce-agreement": "no corpus is bound to the role nonce_agreement",
    "npi": "no corpus is bound to the role minimal_pairs",
    "sums": "the pocket world has no numbers",
    "number-range": "no corpus is bound to the role numbers",
    "properties": "things of the pocket world have no size",
    "pragmatics": "the pocket world does not decide it",
}
NEEDS_TRAINING = ("pos", "chunk", "trees", "agreement", "facts", "long-answers", "negation")
"""Claims that an encoder with random weights does not pass."""
FEWER = {
    role: {"name": "pocket", "sentences": 100, "items": 15} for role in ("treebank", "chunks", "closed_facts", "made")
}
FEWER |= {role: {"name": "bilingual:200", "sentences": 150} for role in ("alignment", "transfer")}
KILLED = "facts", "misprimes", "sep", "fitting-roles", "pragmatics"


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Primer:
    names = [*HOLDS, *FAILS, *NEVER_HOLDS, *NOT_TESTED]
    folder = tmp_path_factory.mktemp("primer") / "run"
    options = RunOptions(engine="serial")  # workers take longer to start than they save
    return primer("pocket", claims=names, roles=FEWER, quick=True, random=True, seeds=1, out=folder, options=options)


@pytest.mark.parametrize(("claim", "why"), HOLDS.items())
def test_what_the_grammar_makes_true_holds(verdicts: Primer, claim: str, why: str) -> None:
    found = verdicts.of("pocket", claim)
    assert found.verdict == "holds", f"{claim}: {why}; found {found.text}"


@pytest.mark.parametrize(("claim", "why"), FAILS.items())
def test_what_the_grammar_makes_false_fails(verdicts: Primer, claim: str, why: str) -> None:
    found = verdicts.of("pocket", claim)
    assert found.verdict == "fails", f"{claim}: {why}; found {found.text}"


@pytest.mark.parametrize(("claim", "why"), NEVER_HOLDS.items())
def test_what_the_world_does_not_give_never_holds(verdicts: Primer, claim: str, why: str) -> None:
    found = verdicts.of("pocket", claim)
    assert found.verdict in ("fails", "mixed", "undecided"), f"{claim}: {why}; found {found.text}"


@pytest.mark.parametrize(("claim", "reason"), NOT_TESTED.items())
def test_what_the_world_does_not_decide_is_not_tested(verdicts: Primer, claim: str, reason: str) -> None:
    found = verdicts.of("pocket", claim)
    assert found.verdict == "not tested"
    assert reason in found.text


def test_random_weights_pass_none_that_needs_training(verdicts: Primer) -> None:
    for claim in NEEDS_TRAINING:
        assert verdicts.of("pocket-random", claim).verdict != "holds", claim
        assert not verdicts.of("pocket", claim).passes_at_random


def test_a_claim_says_how_it_was_found(verdicts: Primer) -> None:
    frame = verdicts.to_pandas()
    tested = frame[frame["verdict"] != "not tested"]
    assert tested["cells"].str.len().gt(0).all()
    assert tested[["estimate", "ci_low", "ci_high"]].notna().all().all()
    assert (tested["ci_low"] <= tested["estimate"] + 1e-9).all()
    assert (tested["estimate"] <= tested["ci_high"] + 1e-9).all()


def test_killed_and_resumed_it_comes_to_the_same_verdicts(tmp_path: Path) -> None:
    arguments = ["primer", "--model", "pocket", "--quick", "--jobs", "1", "--claim", ",".join(KILLED)]
    with commands() as forked:

        def start(name: str, die_at_write: int = 0) -> tuple[int | None, Path]:
            out = tmp_path / name / "out"
            run = forked.start(tmp_path / name, *arguments, "--out", out, die_at_write=die_at_write)
            return run.wait(), out

        code, whole = start("whole")
        assert code == 0
        for place in (3, 6):  # numbers of files after which the run is killed
            assert start("killed", place)[0] == -signal.SIGKILL
            assert not (tmp_path / "killed" / "out" / "claims.parquet").exists()
        code, resumed = start("killed")
        assert code == 0
    first, second = (pd.read_parquet(folder / "claims.parquet") for folder in (whole, resumed))
    assert {*first["claim"]} == {one.id for one in load_claims().claims if one.id.rpartition(".")[0] in KILLED}
    pd.testing.assert_frame_equal(first, second)
