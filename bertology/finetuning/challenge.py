"""Challenge sets: labelled texts or pairs, by whose groups the decisions of a model's own classifier are scored."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

from bertology import finetuning
from bertology._files import digest, digest_file
from bertology._names import by_key, check_name
from bertology.corpora import Sentences, load_corpus
from bertology.errors import CorpusError, listed, quoted
from bertology.families.contract import CellGrid, FitCells, Resources, named_task
from bertology.families.model_corpus import Alignment, ModelCorpus
from bertology.families.request import Init, ReadoutConfig
from bertology.families.sums import PACKAGES, SumsFamily, write_baseline_sums, write_sums
from bertology.measures import share_metric
from bertology.measures.sums import LayerSums, mean_sums
from bertology.probing import ControlNote, GeometryCounts, Probe
from bertology.probing.items import target_examples
from bertology.probing.probes import Subject
from bertology.results.predictions import Stopwatch

Labels = NDArray[np.object_]


@dataclass(frozen=True)
class ChallengeProbe(Probe):
    """A question about the decisions of a model with a classification head on a set of labelled texts or pairs."""

    column: str = ""
    labels: Literal["hans", "own"] | dict[str, str] = "hans"
    """The label of the set that each label of the model stands for; or ``hans``, or ``own``: those of the same name."""
    heuristic: str = "heuristic"
    """Column of the groups that are also scored by label."""
    subcase: str = "subcase"
    """Column of smaller groups."""
    template: str = "template"
    """Column of the texts that are resampled together; each by itself where there is none."""
    presets: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    """By name labels of sets by those of models, in lower case with hyphens, for those that the set lacks."""
    subject: ClassVar[Subject] = "labels of your own"
    fixed_fields = ("column",)
    asked_by = "statistics"
    family = "challenge"
    reads = ()
    asks_random_weights = False
    most_draws = 1
    metrics = (share_metric("accuracy", "share of items whose label is that which the model finds most probable"),)
    controls = (ControlNote("none", "decision", "the model's most probable label, as the label that it stands for"),)
    baselines = (ControlNote("majority", "majority (oracle)", "the label most frequent in this set, for every item"),)

    @property
    def task(self) -> str:
        """``challenge``, with the column of labels where it is named."""
        return f"challenge:{self.column}".rstrip(":")

    def label_of(self, labels: Sequence[str], gold: Collection[str]) -> Mapping[str, str]:
        """Each label of the model as one of the set, itself where it stands for none; CorpusError where none stands for
        a label of the set, or in a mapping of one's own some label for none."""
        own, preset = (self.labels, {}) if isinstance(self.labels, dict) else ({}, self.presets[self.labels])
        for name in own:
            check_name("label of the model", name, labels)
        by_preset = {label: preset.get(label.lower().replace("_", "-"), label) for label in labels}
        found = {label: own.get(label, label if label in gold else by_preset[label]) for label in labels}
        for label in (label for label in labels if own and found[label] not in gold):
            raise CorpusError(f"label {quoted(label)} of the model stands for none of {listed(sorted(gold))}: name one")
        for label in sorted(set(gold) - set(found.values())):
            problem = f"no label of the model ({listed(labels)}) stands for label {quoted(label)} of the set"
            raise CorpusError(f"{problem}: set labels, as {{{labels[0]}: {label}}}")
        return found

    def statistics(self, items: "finetuning._items.Items", predicted: Labels) -> Iterator[LayerSums]:
        """Every text, or pair of texts, of the set that has a label.

        Yields the accuracy of ``[item]`` predicted labels, in all and by group; NameNotFoundError for lacking columns.
        """
        columns, known = dict[str, Labels](), items.sentences.target_layers
        for key in ("heuristic", "subcase", "template"):
            if (name := getattr(self, key)) in known:
                columns[key] = np.full(len(items), None, dtype=object)  # [item] None where an item has no value
                for number, (target, *_) in items.sentences.targets(name):
                    columns[key][number] = str(target.label)
            elif name != key:  # the usual name, which need not be there
                check_name("column of the set", name, known)
        gold, has_templates = np.array(items.gold, dtype=object), "template" in columns
        apart = columns["template"].astype(str) if has_templates else np.arange(len(gold))
        groups = {"": gold == gold, **{f"label {label}": gold == label for label in sorted({*gold})}}
        for key in sorted(columns.keys() - {"template"}):
            for value in dict.fromkeys(filter(None, columns[key])):
                groups[f"{key} {value}"] = columns[key] == value
                for label in sorted({*gold}) if key == "heuristic" else ():
                    groups[f"{value} × {label}"] = (columns[key] == value) & (gold == label)
        clusters = np.unique(apart, return_inverse=True)[1]
        for group, is_in in groups.items():
            if n_items := int(is_in.sum()):
                sums = mean_sums("accuracy", predicted == gold, clusters, weights=is_in, group=group)
                yield replace(sums, n_items=n_items, clusters="templates" if has_templates else "items")


class _Challenge(SumsFamily[ChallengeProbe]):
    """Family of probes of what a model's classifier decides on a challenge set."""

    readout = "classifier.v1"
    about = "the decisions of a model's own classifier"
    has_settings_in_baselines = True

    def items(self, probe: Probe, source: str, *, most: int | None, columns: str | None) -> "finetuning._items.Items":
        """All of a source that is one piece; or at most so many items of each label, drawn by their texts."""
        corpus, column = load_corpus(source, columns=columns), cast(ChallengeProbe, probe).column
        if len(corpus.splits) > 1 and "splits" not in corpus.notes:
            raise CorpusError(f"task {probe.task}: {source} has splits, {listed(corpus.splits)}: give the file of one")
        text = corpus.as_one("all")["all"]
        with named_task(probe):
            column = column or ("gold_label" if "gold_label" in text.target_layers else "label")
            examples = target_examples(text, column)
            labels = dict(zip(examples.clusters.tolist(), examples.codes.tolist(), strict=True))
            if examples.is_multi_label or len(labels) < len(examples):
                raise CorpusError("some text has several labels: give one")
        by_label = by_key((code, number) for number, code in labels.items())
        order = {number: digest([text.text(number).encode()]) for number in labels}
        drawn = sorted(number for some in by_label.values() for number in sorted(some, key=order.__getitem__)[:most])
        gold = [examples.values[labels[number]] for number in drawn]
        skipped = {"no label": len(text) - len(labels)} if len(labels) < len(text) else {}
        sentences, places = Sentences(map(text.__getitem__, drawn)), range(len(drawn))
        table = finetuning._items.item_table(list(map(sentences.id, places)), places, gold, places)
        return finetuning._items.Items(sentences, table, skipped)

    def check(self, pair: ModelCorpus, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
        items: finetuning._items.Items = pair.splits.items[probe.task]
        for config in configs:
            with named_task(probe):
                list(self.configured(probe, config).statistics(items, np.array(items.gold, dtype=object)))

    def cells(self, pair: ModelCorpus, probe: Probe, config: ReadoutConfig, init: Init) -> CellGrid:
        """The last layer, under the head; a head that is kept apart from the weights decides its numbers too."""
        head, last = pair.source.folder / "head.safetensors", (pair.shape.n_layers,)
        return CellGrid(last, last, {"head": digest_file(head)} if head.is_file() else {})

    def compute_cells(self, cells: FitCells, job: Resources) -> None:
        """Run the model on all items."""
        watch, probe, encoder = Stopwatch(), self.configured(cells.probe, cells.config), job.get_encoder()
        items: finetuning._items.Items = job.pair.splits.items[cells.probe.task]
        with named_task(probe):
            labels, decided, n_cut = finetuning._run.decisions(encoder, items)
            label_of = probe.label_of(labels, {*items.gold})
            predicted = np.array([label_of[label] for label in decided], dtype=object)
            found = [replace(one, layers=cells.layers) for one in probe.statistics(items, predicted)]
        write_sums(
            cells,
            job,
            found,
            _counts(items),
            n_clusters=found[0].over.shape[1],
            provenance=watch.provenance(*PACKAGES, device=job.device, n_cells=len(cells.cells)),
            params={"labels": ", ".join(f"{own} → {of_set}" for own, of_set in label_of.items()), "n_cut": n_cut},
            aligned=Alignment.of_pieces(encoder.tokenize(items.sentences)).counts,
        )

    def compute_baselines(self, baselines: FitCells, job: Resources) -> None:
        """The most frequent label for every item, of equals the first in alphabetical order."""
        probe = self.configured(baselines.probe, baselines.config)
        items: finetuning._items.Items = job.pair.splits.items[baselines.probe.task]
        [(label, _)] = Counter(sorted(items.gold)).most_common(1)
        found = list(probe.statistics(items, np.full(len(items.gold), label, dtype=object)))
        write_baseline_sums(baselines, job, lambda _: found, _counts(items), found[0].over.shape[1], "numpy")


def _counts(items: "finetuning._items.Items") -> GeometryCounts:
    return GeometryCounts(len(items), n_classes=len({*items.gold}), skipped=dict(items.skipped))


FAMILY = _Challenge()
