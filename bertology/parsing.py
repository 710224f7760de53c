"""The tree of any sentence by a structural probe: the probe is found or fitted, the sentence read, its tree built."""

import json
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from bertology._files import cache_folder
from bertology._names import name_not_found
from bertology.activations.progress import Progress, silent
from bertology.corpora import Corpus, Sentence, Sentences, load_corpus
from bertology.encoders import model_fingerprint, model_shape, resolve_model
from bertology.errors import BertologyError, FitError
from bertology.families.request import CorpusSettings, parse_layers
from bertology.families.trees import TreeProbe
from bertology.measures.trees import rooted, spanning_trees
from bertology.probing.items import scored_words
from bertology.results import Results, read_results
from bertology.results.cells import file_with
from bertology.results.predictions import KEPT
from bertology.results.trees import TreeReading
from bertology.runner import ProbeRequest, run_probes
from bertology.runner.experiment import Experiment, ModelSettings, load_experiment
from bertology.runner.plan import make_plan

if TYPE_CHECKING:
    from torch import Tensor

    from bertology.encoders import Encoder

_POCKET, _TASK, _RELATION = "pocket", "structural_parse", "deprel"
Setting = TypeVar("Setting", ModelSettings, CorpusSettings)


@dataclass(frozen=True, kw_only=True)
class ParseRequest:
    """A request for the probe that parses sentences."""

    layer: int | None = None
    """0 is the embedding output; negative ones are counted from the last layer. When left out, the layer whose
    distances are nearest to those of the trees of dev."""
    model: str | None = None
    """A folder, or a hub id; when left out ``pocket``, or with a kept probe the model that it was fitted on."""
    corpus: str | None = None
    """The treebank that a new probe is fitted on; when left out ``pocket``, or with a kept probe its own."""
    columns: str | None = None
    """The columns of the corpus, if it is of column files: ``form,xpos,chunk``."""
    probe: Path | None = None
    """Kept probes: their file, or the folder of a run, in which the one of this layer is found."""
    rank: int | None = None
    """Rank of a new probe."""
    pooling: str | None = None
    """A word's vector from its subwords': mean, first or last; when left out mean, or with a kept probe its own."""
    device: str = "auto"
    revision: str | None = None
    trust_remote_code: bool = False

    @cached_property
    def run(self) -> Experiment | None:
        """The experiment of the run that keeps the probe; None for a probe outside of a run, or one to be fitted."""
        for folder in () if self.probe is None else (self.probe, self.probe.parent, self.probe.parent.parent):
            if (folder / "experiment.yaml").is_file():
                return load_experiment(folder / "experiment.yaml", trust_remote_code=self.trust_remote_code)
        return None

    def only(self, named: Sequence[Setting], option: str) -> Setting:
        """The one of several models, or corpora, of the run that is meant."""
        if len(named) > 1:
            which = ", ".join(one.title for one in named)
            raise BertologyError(f"{self.probe}: its run has {which}; choose one with {option}")
        return named[0]


def sentence_of_request(name: str, request: ParseRequest) -> Sentence:
    """The sentence of that id in the corpus of a request: with a kept probe, unless one is named, that of its run."""
    if request.corpus is not None or request.run is None:
        return sentence_of_corpus(name, request.corpus or _POCKET, columns=request.columns)
    chosen = request.only(request.run.corpora, "--corpus")
    return sentence_of_corpus(name, chosen.name, columns=chosen.columns, split=chosen.test_split)


def sentence_of_corpus(name: str, corpus: str, *, columns: str | None = None, split: str = "test") -> Sentence:
    """The sentence of that id in a corpus' test split; ``columns`` are those of column files."""
    loaded = load_corpus(corpus, columns=columns)
    split = next((name for name in (split, *loaded.splits) if name in loaded), split)
    return sentence_by_id(name, loaded, (split,))


def sentence_by_id(name: str, corpus: Corpus, splits: Sequence[str]) -> Sentence:
    """The sentence of that id in some splits of a corpus."""
    places = [(corpus[split], number) for split in splits for number in range(len(corpus[split]))]
    found = next((sentences[number] for sentences, number in places if sentences.id(number) == name), None)
    if found is None:
        ids = [sentences.id(number) for sentences, number in places]
        where = f"{corpus.name} {splits[0]}" if len(splits) == 1 else corpus.name
        raise name_not_found(f"sentence of {where}", name, ids, remedy="give the id of one of them")
    return found


@dataclass(frozen=True, eq=False)
class TreeParser:
    """A structural probe with the encoder whose vectors it was fitted to: gives the tree of each sentence."""

    probe: TreeProbe
    encoder: "Encoder"
    pooling: str

    def __call__(self, sentence: Sentence) -> TreeReading:
        """The tree that the probe predicts for a sentence of any text; where it has heads they are gold."""
        from bertology.activations import read_words

        vectors = read_words(self.encoder, Sentences([sentence]), layers=(self.probe.layer,), pooling=self.pooling)
        return read_tree(sentence, self.probe, vectors[0])


def parse(
    sentence: Sentence, request: ParseRequest, *, progress: Callable[[str], Progress] = lambda _: silent
) -> TreeReading:
    """The tree that a structural probe predicts for a sentence (Hewitt & Manning 2019); see :func:`tree_parser`."""
    return tree_parser(request, progress=progress)(sentence)


def tree_parser(
    request: ParseRequest,
    *,
    encoder: "Encoder | None" = None,
    progress: Callable[[str], Progress] = lambda _: silent,
) -> TreeParser:
    """A parser of sentences by a structural probe.

    The probe is fitted on the corpus if it was not before, by the task ``structural_parse``, and kept.

    Args:
        request: by which probe.
        encoder: the model of the request where it is loaded already.
        progress: gives the progress display of a job from its label.

    Raises:
        BertologyError: there is no such model, corpus, layer or probe, or the probe is another model's or layer's.
    """
    from bertology.encoders import load_encoder

    # The model that is named, also as a run calls it; of a kept probe that of its run.
    named = [m for m in (request.run.models if request.run else ()) if request.model in (None, m.title, m.name)]
    if not named and request.model is None and request.probe is not None:
        models = dict.fromkeys(probe.origin.model for probe in _kept_at(request.probe).values())
        named = [ModelSettings(name=one) for one in models]
    asked_model = ModelSettings(name=request.model or _POCKET, revision=request.revision)
    model = request.only(named, "--model") if named else asked_model
    source = resolve_model(model.name, revision=model.revision)
    weights: dict[str, Any] = {"init": model.init, "seed": 0 if model.init == "pretrained" else model.init_seed}
    layers = None if request.layer is None else parse_layers(str(request.layer), model_shape(source).n_layers)
    fingerprint = model_fingerprint(source, **weights)
    if request.probe is None:  # that of a layer, or of the layer that is best on dev, fitted now unless it was before
        asked = ProbeRequest(
            tasks=_TASK,
            layers="all" if request.layer is None else str(request.layer),
            controls="none",
            readout=None if request.rank is None else {"settings": {"rank": request.rank}},
            model=request.model or _POCKET,
            corpus=request.corpus or _POCKET,
            pooling=request.pooling or "mean",
            **{name: getattr(request, name) for name in ("columns", "device", "revision", "trust_remote_code")},
        )
        plan = make_plan(asked)
        losses = _dev_losses(run_probes(asked, corpus=plan.pair.corpus, progress=progress))
        cell = min(losses, key=lambda cell: losses[cell])
        run = cache_folder() / "runs" / plan.run_id
        probe = TreeProbe.read(run / KEPT / f"{file_with(run, cell)}.safetensors", cell)[cell]
    else:  # the treebank is not needed, and need not be there
        probe = _kept(request.probe, model.title, fingerprint, None if layers is None else layers[0])
    layer, pooling = probe.layer if layers is None else layers[0], request.pooling or probe.origin.pooling
    probe.check(model_fingerprint=fingerprint, layer=layer, pooling=pooling)
    if encoder is None:
        encoder = load_encoder(source, **weights, device=request.device, trust_remote_code=request.trust_remote_code)
    return TreeParser(probe, encoder, pooling)


def read_tree(sentence: Sentence, probe: TreeProbe, vectors: "Tensor") -> TreeReading:
    """The tree that a probe of distances predicts for a sentence, from the vectors ``[word, dim]`` of its words."""
    distances, depths, relations = probe.distances(vectors), probe.depths(vectors), probe.relations(vectors)
    if distances is None:
        remedy = f"give one of structural_distance or {_TASK}"
        raise FitError(f"the probe of {probe.origin.task} knows no distances: {remedy}")
    if {"upos", "xpos"} & set(sentence.layers):
        scored = tuple(scored_words(Sentences([sentence])).tolist())
    else:  # without a treebank's tags, words of punctuation are known by their characters
        scored = tuple(any(unicodedata.category(letter)[0] != "P" for letter in word) for word in sentence.words)
    edges = spanning_trees(distances[None], scored)[0]
    heads = named = None
    if depths is not None and any(scored):
        heads = rooted(edges, int(np.argmin(np.where(scored, depths, np.inf))), n_words=len(sentence))
    if heads is not None and relations is not None:
        # The root has a relation of its own, words in no edge have none.
        both = zip(heads, relations, strict=True)
        named = tuple(None if head < 0 else relation if head else "root" for head, relation in both)
    gold = sentence.layers.get(_RELATION) if sentence.heads is not None else None
    return TreeReading(
        words=sentence.words,
        layer=probe.layer,
        model=probe.origin.model,
        gold=sentence.heads,
        edges=edges,
        distances=distances,
        depths=None if depths is None else tuple(depths.tolist()),
        heads=heads,
        relations=named,
        scored=scored,
        gold_relations=None if gold is None else tuple(gold),
    )


def _kept(path: Path, model: str, fingerprint: str, layer: int | None) -> TreeProbe:
    """The probe that a person names: in a file or folder the one of a model's layer.

    Without a layer it is the one that was best on dev by the results in the folder.
    """
    every = _kept_at(path)
    probes = {cell: probe for cell, probe in every.items() if "distance" in probe.tensors}
    fitting = {
        cell: ("depth" in probe.tensors, "relation" in probe.tensors, probe.origin.task)
        for cell, probe in probes.items()
        if probe.origin.model_fingerprint == fingerprint and layer in (None, probe.layer)
    }
    if not fitting:
        names = sorted({f"{probe.origin.model} layer {probe.layer}" for probe in probes.values()})
        where = "" if layer is None else f" in layer {layer}"
        raise BertologyError(f"{path}: no probe of distances{where} of {model}; there are {', '.join(names) or 'none'}")
    # Of those that fit, the ones with most outputs, and of these the one that was best on dev.
    best = [cell for cell in fitting if fitting[cell] == max(fitting.values())]
    if len({probes[cell].layer for cell in best}) > 1:
        run = path if path.is_dir() else path.parent.parent
        losses = _dev_losses(read_results(run)) if (run / "results.parquet").is_file() else {}
        if not losses.keys() >= set(best):
            raise BertologyError(f"{path}: no results there tell which layer is best on dev; choose one with --layer")
        best.sort(key=lambda cell: losses[cell])
    return probes[best[0]]


def _kept_at(path: Path) -> dict[str, TreeProbe]:
    """The probes that are kept in a folder or file, by cell."""
    if not path.is_dir():
        return TreeProbe.read(path)
    folder = path / KEPT if (path / KEPT).is_dir() else path
    every: dict[str, TreeProbe] = {}
    for file in sorted(folder.glob("*.safetensors")):
        every |= TreeProbe.read(file)
    if not every:
        raise BertologyError(f"{path}: no probe is kept there; run a task such as {_TASK} with --out {path}")
    return every


def _dev_losses(results: Results) -> dict[str, float]:
    """The distance loss on dev of each cell, which early stopping used."""
    losses = {row.cell_id: json.loads(row.params_json).get("dev_loss", {}).get("distances") for row in results.rows}
    return {cell: loss for cell, loss in losses.items() if loss is not None}
