"""The main job in one call, and one text looked at: neighbours, links with a translation, patches, attributions."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

from bertology import corpora
from bertology._files import taken
from bertology._machine import explained
from bertology._names import short_names
from bertology.activations.progress import BarProgress, Progress, can_show, silent
from bertology.corpora import Corpus, Sentence, Text, as_sentence, load_corpus
from bertology.encoders.sources import held_dtype
from bertology.errors import BertologyError, ClozeError, CorpusError, ModelError, ResultsError, quoted
from bertology.families.models import compare_models
from bertology.families.request import AS_READ, ModelSettings, ProbeRequest, parse_layers, parse_names
from bertology.probing import Probe
from bertology.probing.probes import known_probe
from bertology.results import Results
from bertology.runner import run_probes
from bertology.runner.plan import reads_sentences

if TYPE_CHECKING:
    from bertology.causal import Attributions, Circuit, PatchingMap, Target
    from bertology.encoders import Encoder
    from bertology.encoders.interventions import Site
    from bertology.geometry import Neighbours
    from bertology.geometry.alignment import AlignedTexts
    from bertology.results.predictions import FittedProbe

P = ParamSpec("P")
T = TypeVar("T")
Asked = str | Probe | type[Probe]
"""The name of a probe, the probe itself, or its class."""


@explained("this probe")
def probe(
    task: Asked | Sequence[Asked] = "pos",
    *,
    model: str | Path | Encoder | tuple[Any, Any] | list[Any] = "pocket",
    corpus: Any = "pocket",
    reference: str | Path | Encoder | tuple[Any, Any] | ModelSettings | None = None,
    layers: str | int | Sequence[int] = "all",
    seeds: int = 1,
    controls: str | Sequence[str] = "all",
    out: str | Path | None = None,
    store: bool | None = None,
    progress: bool | None = None,
    names: Sequence[str | None] | None = None,
    **settings: Any,
) -> Results:
    """Ask what can be read off each layer of an encoder, and how sure that is.

    >>> from bertology import probe
    >>> table = probe("pos", model="pocket", corpus="pocket")  # doctest: +SKIP

    Args:
        task: the name of a probe, or several, in a sequence or with commas: ``pos``, ``feats:Number`` …
            (``bertology tasks`` lists them); or a :class:`~bertology.probing.Probe` of your own, alone or among names,
            which is known by its name from then on, as by :func:`~bertology.register_probe`.
        model: ``pocket``, a folder in Hugging Face layout, a hub id, an :class:`~bertology.Encoder`, or a transformers
            model and its tokenizer, ``(model, tokenizer)``; or a list of such, which are compared with each other.
        corpus: the name or path of a corpus, a :class:`~bertology.Corpus`, or data in memory: a DataFrame, a data set
            of Hugging Face, a list of (text, label) or (words, tags) …, as :func:`bertology.load_corpus` takes them; of
            cloze tasks a table of items (good, bad …).
        reference: the model that comparison tasks compare ``model`` with, such as the one it was fine-tuned from:
            as ``model``, or :class:`bertology.runner.experiment.ModelSettings` where it is read in another way.
        layers: ``all``, ``"0-6"``, ``"3,5,-1"`` or numbers; 0 is the embedding output, 1…L the blocks.
        seeds: how many times to fit: once on the training split as it is, then on resamples of its sentences.
        controls: what the scores stand beside: ``"all"``, ``"none"`` or names such as ``majority``, ``random`` (the
            encoder with random weights) and ``control_task`` (Hewitt & Liang 2019), which
            :class:`bertology.runner.experiment.Experiment` lists.
        out: a folder to keep the run in; the cache when left out. Of several models each has a folder of its own there.
        store: whether to keep vectors in the cache, for later runs; otherwise they stay in memory, or a temporary
            folder, until all tasks of a model are done. When left out they are kept, unless a GPU has room for them.
        progress: whether to draw bars; by default in a notebook, and if standard error is a terminal.
        names: what tables call models in memory, one for each of ``model``, None for those of files; the name that one
            was loaded by and ``(in memory)`` when left out.
        settings: further fields of :class:`bertology.runner.ProbeRequest`, such as ``dtype`` (that of a model in
            memory, else float32, when left out), ``pooling``, ``sentences`` (at most so many of each split),
            ``random_draws``, ``on_long``, ``shared_subwords``, ``device``, ``test_split``, ``folds`` (cross-validate
            over so many folds of documents), ``columns`` or ``annotate``; ``readout``, names with commas, or a mapping
            as in an experiment file, ``{"name": "mlp", "settings": {"hidden": [16, 64]}}``; ``pool``, of sentences and
            other spans ``"mean,cls"`` or any of ``mean``, ``max``, ``last`` and ``cls``.

    Returns:
        The scores of every layer with their controls and 95 % intervals: shows as a table in a notebook; has
        ``.to_pandas()``, ``.plot()``, ``.save(folder)``, ``.predictions(task, layer)``, ``.fitted(task, layer)``,
        ``.per_label(task, layer)``, ``.per_group(task, layer)``, ``.confusion(task, layer)`` and, of several models,
        ``.models()``.

    Raises:
        BertologyError: something asked for cannot be done; the message says what, and what would be right.
    """
    tasks = _named(task)
    if not isinstance(corpus, str | Path):
        table = None if isinstance(corpus, Corpus) or reads_sentences(tasks) else corpora.kept_table(corpus)
        corpus = table or load_corpus(corpus, columns=settings.pop("columns", None))
        if settings.get("annotate"):
            raise CorpusError("annotate labels a file of raw text, not data in memory; annotate_text takes a text")
    if not isinstance(settings.get("columns"), str | None):
        settings["columns"] = ",".join(settings["columns"])
    show = can_show() if progress is None else progress
    models = model if isinstance(model, list) else [model]
    if not isinstance(reference, ModelSettings | None):
        *found, reference = names_of([*models, reference], None if names is None else [*names, None])
        if "dtype" not in settings and (dtype := held_dtype(reference)) is not None:  # it computes in its own type
            read = {field: settings[field] for field in AS_READ if field in settings}
            reference = ModelSettings(name=reference, **{**read, "dtype": dtype})
    else:
        found = names_of(models, names)
    short = short_names(found)
    if not found or len(short) < len(found):
        raise ModelError("model: give different models, each once" if found else "model: give at least one")
    asked = {
        "tasks": tasks,
        "reference": reference,
        "corpus": corpora.kept_name(corpus) if isinstance(corpus, Corpus) else str(corpus),
        "layers": str(layers) if isinstance(layers, str | int) else ",".join(map(str, taken(layers, "layers"))),
        "seeds": seeds,
        "controls": controls if isinstance(controls, str) else list(taken(controls, "controls")),
        **settings,
    }
    folder, runs = None if out is None else Path(out), list[Results]()
    for name in found:
        dtype = settings.get("dtype") or held_dtype(name) or "float32"
        own = folder if folder is None or len(found) == 1 else folder / short[name].replace("/", "-")
        whole, bars = corpus if isinstance(corpus, Corpus) else None, BarProgress if show else lambda _: silent
        request = ProbeRequest(**{**asked, "model": name, "dtype": dtype})
        runs.append(run_probes(request, corpus=whole, out=own, store=store, progress=bars))
    if len(runs) == 1:
        return runs[0]
    results = compare_models(reduce(operator.add, runs))
    if folder is not None:
        results.save(folder)
    return results


def _of_texts(doing: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorator of a function of texts, all whose errors have one line, that of a model among the texts as well."""

    def decorated(function: Callable[P, T]) -> Callable[P, T]:
        every = inspect.signature(function).parameters.values()
        names = [one.name for one in every if one.kind is one.POSITIONAL_OR_KEYWORD]

        @explained(doing)
        @wraps(function)
        def checked(*given: P.args, **settings: P.kwargs) -> T:
            first: Any = given[0] if given else None
            is_text = first is None or hasattr(first, "__len__") or hasattr(first, "__iter__")
            if len(given) > len(names) or not is_text:
                call = f"{function.__name__}({', '.join(names)}, model=…)"
                raise BertologyError(f"{function.__name__}: the model is given by name, after the texts: write {call}")
            return function(*given, **settings)

        return checked

    return decorated


def names_of(models: Sequence[Any], names: Sequence[str | None] | None = None) -> list[str]:
    """Names that identify the given models; torch is imported only if one of them is an object."""
    if names is None and all(isinstance(model, str | Path) for model in models):
        return list(map(str, models))
    from bertology.encoders.memory import model_names

    return model_names(models, names)


def _named(task: Asked | Sequence[Asked]) -> tuple[str, ...]:
    """The names of tasks; probe objects among them become known by theirs."""
    several = task.split(",") if isinstance(task, str) else task
    names, own = list[str](), set[str]()
    for one in taken(several, "task") if isinstance(several, Iterable) else [several]:
        names.append(one if isinstance(one, str) else known_probe(one).task)
        own.update([] if isinstance(one, str) else names[-1:])
    for name in own:
        if names.count(name) > 1:
            raise BertologyError(f"task {name} is asked for twice: give each probe a task of its own")
    return parse_names(names)


def _opened(model: Any, loading: dict[str, Any]) -> Encoder:
    """An encoder by the settings of how it is loaded."""
    from bertology.encoders import load_encoder, resolve_model

    return load_encoder(resolve_model(names_of([model])[0], revision=loading.pop("revision", None)), **loading)


@_of_texts("this search")
def neighbours(
    text: Text,
    word: str | None = None,
    *,
    span: tuple[int, int] | None = None,
    occurrence: int | None = None,
    corpus: Any = "pocket",
    model: str | Path | Encoder | tuple[Any, Any] = "pocket",
    layers: str | int | Sequence[int] = "all",
    k: int = 10,
    split: str = "all",
    tag: str | None = None,
    sense: str | None = None,
    language: str | None = None,
    split_at_spaces: bool = False,
    progress: bool | Callable[[str], Progress] | None = None,
    **settings: Any,
) -> Neighbours:
    """The nearest occurrences of a word's occurrence in a corpus, by the cosine of their vectors, in every layer.

    Of a phrase too, or of characters: its vector is the mean of its words' vectors, its neighbours are single words.

    >>> from bertology import neighbours
    >>> found = neighbours("We sat on the bank of the river.", "bank", corpus="ud:en_ewt")  # doctest: +SKIP

    The vectors of the corpus come from the store, where probes of the same model and corpus keep theirs, or are
    extracted into it. Search is exact, in blocks read from the store, so that memory does not grow with the corpus.

    Args:
        text: a text, a list of words, or an annotated sentence. Where it is one of the corpus, the word is not its own
            neighbour, and its tag and sense are known from there.
        word: the form of a word in it, in whatever case; or a phrase, such as ``"Big Apple"``.
        span: instead of it, where characters of the text begin and end, from 0, end exclusive: whole words.
        occurrence: number of the occurrence, from 1, where the word stands in the text several times.
        corpus: what is searched: a name or path, a :class:`~bertology.Corpus`, or data in memory.
        model: as of :func:`probe`.
        layers: ``all``, ``"0-6"``, ``"3,5,-1"`` or numbers; 0 is the embedding output.
        k: number of neighbours in each layer.
        split: splits that are searched, with commas, or ``all``.
        tag: tag of the word where the text has none; neighbours are compared with it.
        sense: sense of the word where the text has none, likewise.
        language: language of the text, whose rules find its words.
        split_at_spaces: whether words are separated by spaces instead.
        progress: whether to draw bars, by default in a notebook, and if standard error is a terminal; or a function
            that gives the progress display of a job from its label.
        settings: further fields of :class:`bertology.runner.ProbeRequest` that decide vectors: ``pooling``, ``dtype``,
            ``stored_dtype``, ``on_long``, ``max_pieces``, ``device``, ``sentences``, ``columns``, ``revision``,
            ``trust_remote_code``.

    Returns:
        The neighbours: shows as a table in a notebook; has ``.frame`` (a row a neighbour) and ``.shares`` (a row a
        layer).

    Raises:
        BertologyError: the word is not in the text, or there is no such corpus, model or layer.
    """
    from bertology.activations import extract, read_words
    from bertology.activations.layers import LayerVectors
    from bertology.encoders import load_encoder, model_fingerprint, model_shape, resolve_model
    from bertology.families.model_corpus import Alignment, ModelCorpus, Splits, Weights
    from bertology.geometry.neighbours import SearchedText, find_neighbours

    name = names_of([model])[0]
    request = ProbeRequest(model=name, **{"dtype": held_dtype(name) or "float32", **settings})
    sentence = as_sentence(text, language=language, split_at_spaces=split_at_spaces)
    places = corpora.words_at(sentence, word, span=span, occurrence=occurrence)
    loaded = load_corpus(corpus, columns=request.columns)
    splits = {name: loaded[name] for name in (loaded.splits if split == "all" else parse_names(split))}
    if request.sentences is not None:
        splits = {name: sentences[: request.sentences] for name, sentences in splits.items()}
    source, weights = resolve_model(request.model, revision=request.revision), Weights("pretrained")
    shape = model_shape(source)
    chosen = parse_layers(layers, shape.n_layers)
    how = {key: getattr(request, key) for key in ("dtype", "device", "trust_remote_code", "max_pieces")}
    encoder = load_encoder(source, **how)
    own = read_words(encoder, sentence, layers=chosen, pooling=request.pooling).numpy()
    pair = ModelCorpus(request, source, shape, loaded, Splits(), chosen, {weights: model_fingerprint(source)})
    read, shared = {}, {}
    for name, sentences in splits.items():
        shown = can_show() if progress is None else bool(progress)
        bars = progress if callable(progress) else BarProgress if shown else lambda _: silent
        bar = bars(f"{source.title} reads {loaded.name} {name}")
        recipe = pair.recipe(weights, sentences)
        entry = extract(lambda: encoder, sentences, recipe=recipe, layers=chosen, progress=bar)
        read[name], shared[name] = partial(LayerVectors.stored, entry, layers=chosen), Alignment.of_entry(entry).shared
    return find_neighbours(
        sentence,
        places.start,
        own[:, places].mean(axis=1),
        SearchedText(splits, read, shared),
        layers=chosen,
        k=k,
        tag=tag,
        sense=sense,
        model=source.title,
        corpus=loaded.name,
        n_layers=encoder.n_layers,
        n_words=len(places),
    )


@overload
def align(first: str | Sentence, second: str | Sentence, **settings: Any) -> AlignedTexts: ...
@overload
def align(first: Sequence[Text], second: Sequence[Text], **settings: Any) -> list[AlignedTexts]: ...
@_of_texts("this alignment")
def align(
    first: str | Sentence | Sequence[Text],
    second: str | Sentence | Sequence[Text],
    *,
    model: str | Path | Encoder | tuple[Any, Any] = "bilingual",
    layers: str | int | Sequence[int] = "all",
    layer: int | None = None,
    method: str = "argmax",
    distortion: float = 0.0,
    pooling: str = "mean",
    language: str | Sequence[str | None] | None = None,
    split_at_spaces: bool = False,
    **loading: Any,
) -> AlignedTexts | list[AlignedTexts]:
    """Link the words of a text with those of its translation, by the similarity of their vectors.

    >>> from bertology import align
    >>> print(align("Oscar has seen this cat.", "Сази пида гилогане лупихефнет:"))  # doctest: +SKIP

    As SimAlign (Jalili Sabet et al. 2020); the task ``languages:alignment`` measures it on text with gold links.

    Args:
        first: a text or an annotated sentence; or a list of such, and of lists of words.
        second: its translation, or that of each.
        model: as of :func:`probe`; ``bilingual`` is the embedded model of two languages.
        layers: those that are read: ``all``, ``"0-6"``, ``"3,5,-1"`` or numbers; 0 is the embedding output.
        layer: layer that is shown; when left out the nearest of those read to two thirds of the way up (8 of 12, as in
            SimAlign).
        method: ``argmax`` (words most similar to each other), ``itermax`` (and more rounds) or ``match`` (one to one,
            as many as possible).
        distortion: by how much similarity falls with the distance of relative places, from 0 to 1.
        pooling: a word's vector from its pieces': ``mean``, ``first`` or ``last``.
        language: languages of the texts and of their translations, ``"en,de"``, whose rules find words.
        split_at_spaces: whether words are separated by spaces instead.
        loading: ``device``, ``dtype``, ``revision``, ``trust_remote_code`` and ``max_pieces``.

    Returns:
        The links of each layer: shows as those of one in a notebook; has ``.links()``, ``.pharaoh()``,
        ``.to_pandas()``, ``.plot()`` and ``.save(path)``. Of lists of texts a list.

    Raises:
        BertologyError: there are not as many translations as texts, a text has no word, or there is no such model,
            layer or method.
    """
    from bertology.encoders import model_shape, resolve_model
    from bertology.geometry.alignment import aligned_texts

    languages = parse_names(language) if isinstance(language, str) else language or (None, None)
    if len(languages) != 2:
        raise CorpusError(f"language {quoted(language)}: name that of the texts and that of their translations, en,de")
    both: list[list[Sentence]] = []
    for one, of in zip((first, second), languages, strict=True):
        texts: Any = [one] if isinstance(one, str | Sentence) else one
        both.append([as_sentence(text, language=of, split_at_spaces=split_at_spaces) for text in texts])
    n_layers = model_shape(resolve_model(names_of([model])[0], revision=loading.get("revision"))).n_layers
    shown = parse_layers([layer], n_layers) if layer is not None else ()
    read = tuple(sorted({*parse_layers(layers, n_layers), *shown}))
    found = aligned_texts(
        _opened(model, loading),
        *both,
        layers=read,
        layer=shown[0] if shown else None,
        method=method,
        distortion=distortion,
        pooling=pooling,
    )
    return found[0] if isinstance(first, str | Sentence) else found


@_of_texts("this patching")
def patch(
    text: str,
    other: str,
    *,
    candidates: str | Sequence[str] | None = None,
    target: str | Target | None = None,
    second: str | Sequence[str] | None = None,
    other_second: str | Sequence[str] | None = None,
    probe: str | FittedProbe | None = None,
    model: str | Path | Encoder | tuple[Any, Any] = "pocket",
    layers: str | int | Sequence[int] = "all",
    site: Site = "hidden_state",
    direction: Literal["denoise", "noise"] = "denoise",
    method: Literal["exact", "attribution", "both"] = "exact",
    steps: int = 1,
    language: str | None = None,
    split_at_spaces: bool = False,
    **loading: Any,
) -> PatchingMap:
    """Find the states of a text that a prediction rests on, layer by layer and word by word.

    >>> from bertology import patch
    >>> texts = "The guards near the dog [MASK] open.", "The guard near the dog [MASK] open."
    >>> print(patch(*texts, candidates="are,is"))  # doctest: +SKIP

    The pass over one text goes on with states of the other at one place (interchange intervention). For many pairs,
    with intervals, there is :func:`bertology.causal.patch`. Arguments that are not described here are those of
    :func:`attribute`.

    Args:
        text: a text; of a masked word with one mask, ``[MASK]``, ``{mask}`` or ``<mask>``.
        other: as many words, some of which differ.
        candidates: the word that the text calls for at the mask, and the one that the other text calls for.
        target: what is predicted; when left out the labels that the model predicts of the two texts, which must differ.
        other_second: second text of the other text; the same when left out.
        layers: ``all``, ``"0-6"``, ``"3,5,-1"`` or numbers; 0 is the embedding output.
        site: what is exchanged: ``hidden_state``, ``attention_output``, ``feed_forward_output``, ``values``, or
            ``head``, the output of each head at all places.
        direction: ``denoise`` puts states of the text into the pass over the other, ``noise`` the other way round.
        method: ``exact`` effects, estimates by ``attribution`` patching in one backward pass, or ``both``.
        steps: steps of the path along which the gradient of the estimates is averaged.

    Returns:
        The effects: print as a table, show as a page in a notebook; have ``.to_pandas()``, ``.plot()``
        and ``.save(path)``.

    Raises:
        BertologyError: the texts cannot be aligned, or there is no such model, target, layer or site.
    """
    from bertology.causal import PatchPair
    from bertology.causal import patch as patch_pairs

    encoder = _opened(model, loading)
    chosen = parse_layers(layers, encoder.n_layers)
    if site != "hidden_state" and layers == "all":
        chosen = chosen[1:]
    asked, seconds = _target(encoder, candidates, target, probe), _second(second) or ()
    words: dict[str, Any] = {"language": language, "split_at_spaces": split_at_spaces}
    pair = PatchPair(text, other, target=asked, seconds=seconds, other_seconds=_second(other_second), **words)
    return patch_pairs(encoder, pair, site=site, layers=chosen, direction=direction, method=method, steps=steps)


@_of_texts("this circuit")
def circuit(
    text: str,
    other: str,
    *,
    candidates: str | Sequence[str] | None = None,
    target: str | Target | None = None,
    second: str | Sequence[str] | None = None,
    other_second: str | Sequence[str] | None = None,
    probe: str | FittedProbe | None = None,
    model: str | Path | Encoder | tuple[Any, Any] = "pocket",
    steps: int = 5,
    rankings: str | Sequence[str] = "eap_ig,random",
    language: str | None = None,
    split_at_spaces: bool = False,
    **loading: Any,
) -> Circuit:
    """Find the edges between heads by which a text makes a prediction that another text does not.

    >>> from bertology import circuit
    >>> circuit("The dogs [MASK].", "The dog [MASK].", candidates="run,runs").save("circuit.svg")  # doctest: +SKIP

    For many pairs, with intervals, there is :func:`bertology.causal.circuit`, which says what is returned. Arguments
    that are not described here, and errors, are those of :func:`patch`.

    Args:
        steps: steps of the path along which the gradient of ``eap_ig`` is averaged.
        rankings: scores of edges, the first one those that are shown: ``eap_ig``, ``eap``, ``exact``, ``random``.
    """
    from bertology.causal import PatchPair
    from bertology.causal import circuit as circuit_of_pairs

    encoder, chosen = _opened(model, loading), parse_names(rankings)
    asked, seconds = _target(encoder, candidates, target, probe), _second(second) or ()
    words: dict[str, Any] = {"language": language, "split_at_spaces": split_at_spaces}
    pair = PatchPair(text, other, target=asked, seconds=seconds, other_seconds=_second(other_second), **words)
    return circuit_of_pairs(encoder, pair, steps=steps, rankings=chosen)


@_of_texts("this attribution")
def attribute(
    text: str | Sequence[str] | None = None,
    *,
    candidates: str | Sequence[str] | None = None,
    target: str | Target | None = None,
    second: str | Sequence[str] | None = None,
    probe: str | FittedProbe | None = None,
    corpus: Any = None,
    columns: str | None = None,
    task: str | None = None,
    split: str = "dev",
    sentences: int = 100,
    model: str | Path | Encoder | tuple[Any, Any] = "pocket",
    methods: str | Sequence[str] | None = None,
    layers: str | int | Sequence[int] | None = None,
    baseline: Literal["mask", "pad"] = "mask",
    unit: Literal["word", "subword"] = "word",
    scores: str | Mapping[str, Sequence[Sequence[float]]] | None = None,
    language: str | None = None,
    split_at_spaces: bool = False,
    **settings: Any,
) -> Attributions:
    """Score the words of texts by how much a prediction rests on them, by several methods.

    >>> from bertology import attribute
    >>> print(attribute("The guards near the dog [MASK] open.", candidates="are,is"))  # doctest: +SKIP
    >>> attribute("a film to remember", model="tuned/seed-1", target="label=positive")  # doctest: +SKIP

    What the methods are :func:`bertology.causal.attribute` says, which takes texts with a target each.

    Args:
        text: a text, or several; of a masked word each with one mask, ``[MASK]``, ``{mask}`` or ``<mask>``.
        candidates: the word that is explained, and the one that it is compared with.
        target: what is explained: ``label``, ``label=negative``, ``label=negative,positive`` (compared with the second
            one, else with the runner-up), ``number``, ``tag=3`` or ``tag=3:PER`` of the third word, ``answer`` or
            ``answer=in Paris``, ``choice`` or ``choice=2``, ``word=are,is``, ``probe=3:NOUN``. When left out what the
            model predicts, by its own head.
        second: second text of a pair, passage of a question, or choices with ``|||`` between them.
        probe: fitted probe of the target ``probe``: ``RUN,TASK,LAYER``, with the folder of a run.
        corpus: texts with labels instead of ``text``: as of :func:`bertology.load_corpus`.
        columns: of a table, as of :func:`bertology.load_corpus`.
        task: the labels of the corpus, such as ``sentence_label:label``; that for which the model was fine-tuned when
            left out.
        split: split of the corpus, where it has several.
        sentences: number of texts of the corpus at most, the first ones.
        model: as of :func:`probe`, with a head for the target; by folder, hub id, or in memory.
        methods: names, in a sequence or with commas, such as ``integrated_gradients,leave_one_out``, or ``all``; those
            that take less time than ``occlusion``, ``shapley`` and ``kernel_shap`` when left out.
        layers: layers whose hidden states, attention and values are asked about; when left out the embeddings for
            gradients and the last block for attention and values.
        baseline: what words are replaced by, all ``mask`` or all ``pad``.
        unit: what is scored: words, or subwords.
        scores: scores of your own that are put to the same tests: lists, one a text, by name; or the name of a column
            of the corpus, a table, that holds them.
        language: language of the text, whose rules find its words.
        split_at_spaces: whether words are separated by spaces instead.
        settings: ``device``, ``dtype``, ``revision``, ``trust_remote_code`` and ``max_pieces`` of the model; and of the
            methods ``steps``, ``span``, ``samples`` and ``seed``, as of :func:`bertology.causal.attribute`.

    Returns:
        The scores: print as a table, show as a page in a notebook; have ``.to_pandas()``, ``.summary()``, ``.plot()``,
        ``.save(path)`` and ``.faithfulness()``.

    Raises:
        BertologyError: the text or the target does not fit the model, or there is no such model, layer or method.
    """
    from bertology.causal import PatchPair
    from bertology.causal import attribute as attribute_questions

    of_methods = {name: settings.pop(name) for name in ("steps", "span", "samples", "seed") if name in settings}
    encoder = _opened(model, settings)
    if (text is None) == (corpus is None):
        raise ClozeError("give a text, or a corpus of texts with labels")
    if corpus is None:
        words: dict[str, Any] = {"language": language, "split_at_spaces": split_at_spaces}
        asked, seconds = _target(encoder, candidates, target, probe), _second(second) or ()
        texts = [text] if isinstance(text, str) else list(text or ())
        questions = [PatchPair(one, target=asked, seconds=seconds, **words) for one in texts]
    else:
        from bertology.finetuning import questions_of, task_of

        if second is not None or candidates is not None:
            raise ClozeError("a corpus has its own second texts and labels: leave second and candidates out")
        loaded = load_corpus(corpus, columns=columns)
        parts, is_whole = list(loaded.splits.values()), len(loaded.splits) == 1 or "splits" in loaded.notes
        # A corpus without splits of its own is explained as a whole.
        read = (loaded.as_one(split) if is_whole else loaded)[split][:sentences]
        chosen_task = task or task_of(encoder)
        questions = questions_of(chosen_task, read, None if target is None else _target(encoder, None, target, probe))
        if isinstance(scores, str):
            if "splits" in loaded.notes or len(parts) > 1 or len(questions) != len(read):
                remedy = "give the table as one split, {'dev': table} or a file dev.tsv, with an item in each row"
                raise CorpusError(f"scores {quoted(scores)}: {remedy}")
            scores = {scores: corpora.list_column(corpus, scores, len(questions))}
    if isinstance(scores, str):
        raise CorpusError(f"scores {quoted(scores)}: a column is one of a corpus: name it, or give lists by name")
    chosen: Any = methods if methods in (None, "all") else parse_names(methods or "")
    return attribute_questions(
        encoder,
        questions,
        methods=chosen,
        layers=None if layers is None else parse_layers(layers, encoder.n_layers),
        baseline=baseline,
        unit=unit,
        scores=scores,
        **of_methods,
    )


def _target(
    encoder: Encoder, candidates: Sequence[str] | None, target: str | Target | None, probe: str | FittedProbe | None
) -> Target:
    """The target that is named in one of several ways, or that of the model's own head."""
    from bertology.causal import Target
    from bertology.results import read_results

    if candidates is not None:
        if target is not None:
            raise ClozeError("candidates are the target word=GOOD,BAD: give one of the two")
        words = parse_names(candidates)
        if len(words) != 2:
            raise ClozeError(f"{len(words)} candidates: give two, the word that the text calls for, then the other's")
        return Target("word", *words)
    asked = Target.default(encoder) if target is None else Target.parse(target) if isinstance(target, str) else target
    if isinstance(probe, str):
        run, *rest = probe.rsplit(",", 2)
        if len(rest) != 2:
            raise ResultsError(f"probe {quoted(probe)}: give the folder of a run, a task and a layer: runs/trial,pos,3")
        (layer,) = parse_layers(rest[1].strip(), encoder.n_layers)
        probe = read_results(run.strip()).fitted(rest[0].strip(), layer)
    return asked if probe is None else replace(asked, probe=probe)


def _second(texts: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Second texts, which one string holds with ``|||`` between them."""
    given = texts.split("|||") if isinstance(texts, str) else texts
    return None if given is None else tuple(part.strip() for part in given)
