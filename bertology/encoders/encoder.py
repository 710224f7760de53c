"""A loaded encoder: from text or vocabulary numbers to word vectors, attention maps and masked-LM logits."""

from __future__ import annotations

import contextlib
import copy
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertology._lazy import PROVIDED, pd, scipy
from bertology._machine import bfloat16_is_fast, is_out_of_memory, shortage
from bertology._names import check_name, layer_number, name_not_found
from bertology._products import has_one_dnn
from bertology.corpora import Sentences, Texts, as_sentences
from bertology.corpora.prompts import with_masks
from bertology.encoders import heads
from bertology.encoders._modules import LoadedModel, check_finite, pack, run_to_layers, states_at
from bertology.encoders.alignment import PieceReader, Pieces, WordPooling
from bertology.encoders.batching import CLS, Batch, Encoding, OnLong, Pooling, pieces_in_batch, plan_batches
from bertology.encoders.interventions import Gates, Intervention, Words, check_gates, gating, intervening
from bertology.encoders.sources import Init, ModelShape, ModelSource, layers_from_end, model_fingerprint
from bertology.errors import CorpusError, ModelError, ShortMemoryError, listed, quoted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Layers = int | Sequence[int] | Literal["all"]
_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")
_Label = tuple[int, int, str]  # number of a text and of a word in it, from 1, and its form


@dataclass(frozen=True, eq=False)
class LabelledArray:
    """A small array whose axes have names, and the places of each axis labels; numpy takes it as an array."""

    values: NDArray[np.float32]
    labels: Mapping[str, Sequence[Any]]
    """Labels of the places of each axis, in order, by its name; tuples where several things tell them apart."""
    parts: Mapping[str, tuple[str, ...]]
    """Names of the parts of labels that are tuples, by the name of their axis."""
    breaks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Places where another text begins, by the name of the axis."""
    chosen: Mapping[str, Any] = field(default_factory=dict)
    """Labels of the axes that :meth:`at` left out, by their names."""
    n_layers: int | None = None
    """Number of blocks of the model, from whose last :meth:`at` counts negative layers."""

    def __repr__(self) -> str:
        return f"<LabelledArray: {', '.join(f'{name} {len(of_axis)}' for name, of_axis in self.labels.items())}>"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.values, dtype=dtype, copy=copy)

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self.values.shape

    def at(self, **labels: Any) -> LabelledArray:
        """The values at one label of each axis named, which is dropped: ``at(layer=8, head=10)``, ``at(layer=-1)``.

        A NameNotFoundError is raised where there is no such axis or label.
        """
        values, names = self.values, list(self.labels)
        if self.n_layers is not None and isinstance(labels.get("layer"), int):
            labels["layer"] = layer_number(labels["layer"], self.n_layers)
        for name, label in labels.items():
            check_name("axis of the array", name, self.labels)
            known = list(self.labels[name])
            if label not in known:
                raise name_not_found(name, str(label), map(str, known))
            values = np.asarray(values.take(known.index(label), axis=names.index(name)))
            names.remove(name)
        kept = {name: self.labels[name] for name in names}
        return replace(self, values=values, labels=kept, chosen={**self.chosen, **labels})

    def to_numpy(self) -> NDArray[np.float32]:
        """The values alone."""
        return self.values

    def to_pandas(self) -> pd.DataFrame:
        """A data frame: the last axis as columns, the others as levels of the index."""
        *rows, columns = self.labels
        levels = ([one if isinstance(one, tuple) else (one,) for one in self.labels[name]] for name in rows)
        tuples = [tuple(itertools.chain.from_iterable(place)) for place in itertools.product(*levels)]
        names = [part for name in rows for part in self.parts.get(name, (name,))]
        index = pd.MultiIndex.from_tuples(tuples, names=names) if len(names) > 1 else [one for (one,) in tuples]
        frame = pd.DataFrame(self.values.reshape(len(tuples), -1), index=index, columns=list(self.labels[columns]))
        return frame.rename_axis(index=names, columns=columns)

    def plot(self, *, title: str | None = None) -> Figure:
        """One attention map, such as ``at(layer=8, head=10)``, as a heatmap from rows to columns.

        The figure has ``.save("head.svg")``, with text as text and not as outlines, and is shown in a notebook. The
        title defaults to the name of the head. A ResultsError is raised for an array that is not one map.
        """
        figure: Figure = PROVIDED["plot"](self, title=title)
        return figure


@dataclass(frozen=True, eq=False)
class EncoderRun:
    """Vectors and masked-LM logits of some texts in one run; made by :meth:`Encoder.run`."""

    vectors: LabelledArray
    """Axes ``layer``, ``word`` and ``dim``."""
    logits: LabelledArray | None
    """Logits of the masked-LM head, with axes ``mask`` and ``entry``; None without a mask or without a head."""

    @property
    def probabilities(self) -> LabelledArray | None:
        """Probabilities of all entries of the vocabulary at each mask, with axes ``mask`` and ``entry``."""
        if self.logits is None:
            return None
        return replace(self.logits, values=scipy.special.softmax(self.logits.values, axis=1))


class Encoder:
    """A loaded encoder, made by :func:`load_encoder`.

    Layer 0 is the embedding output, layers 1…``n_layers`` are the blocks; heads and the layers of attention maps count
    from 1. Results are on the model's device in its dtype, and carry no gradients unless gates require them.
    """

    def __init__(
        self,
        source: ModelSource,
        shape: ModelShape,
        model: LoadedModel,
        *,
        tokenizer: Any,
        reader: PieceReader,
        init: Init,
        seed: int,
        dtype: str,
        eager: bool,
    ) -> None:
        self.name, self.source = source.name, source
        self.family, self.n_layers, self.dim, self.n_heads = shape.family, shape.n_layers, shape.dim, shape.n_heads
        self.init: Init = init
        self.seed, self.dtype = seed, dtype
        self.tokenizer = tokenizer
        """The transformers tokenizer, for what is not offered here."""
        self.model, self._reader, self._eager = model, reader, eager
        self.max_pieces, self.pad_id = reader.max_pieces, reader.pad_id
        """Pieces in one window, special tokens included; the vocabulary number that pads shorter rows of a batch."""
        self.n_prefix, self.n_suffix = len(reader.prefix), len(reader.suffix)
        """Special tokens before and after the text in every window."""
        self.lens: heads.Lens | None = None
        self._gates: Gates = {}
        self.is_fast = False

    def __repr__(self) -> str:
        shape = f"{self.n_layers} layers of {self.dim}, {self.n_heads} heads"
        return f"<Encoder {self.name} ({self.family}, {self.init}): {shape}, {self.dtype} on {self.device}>"

    @staticmethod
    def comes_first(function: Callable[_Given, _Found]) -> Callable[_Given, _Found]:
        """Decorator of functions that take an encoder first: a call in another order ends in an error that names it."""

        @wraps(function)
        def checked(*given: _Given.args, **named: _Given.kwargs) -> _Found:
            if given and not isinstance(given[0], Encoder):
                name, then = function.__name__, [*inspect.signature(function).parameters][1]
                order = f'give the encoder first, then the {then}: {name}(load_encoder("pocket"), …)'
                raise ModelError(f"{name}: {type(given[0]).__name__} instead of a loaded encoder; {order}")
            return function(*given, **named)

        return checked

    @classmethod
    def from_model(cls, model: Any, tokenizer: Any, *, name: str | None = None, adapter: Any = None) -> Encoder:
        """A model in memory as it is now, of transformers or any module; see :func:`bertology.encoders.in_memory`."""
        encoder: Encoder = PROVIDED["from_model"](model, tokenizer, name=name, adapter=adapter)
        return encoder

    def twin(self) -> Encoder:
        """Another encoder with the same weights, for another thread: one encoder serves one thread at a time."""
        if self.is_gated:
            raise ModelError("heads are gated: make twins before gated_heads, and gate each")
        twin = copy.copy(self)
        # Hooks, which belong to a module, keep count of what is running: the modules must differ.
        twin.model = self.model.copied(share=True)
        twin.__dict__.pop("masked_head", None)
        return twin

    def through(self, lens: heads.Lens) -> Encoder:
        """A twin whose masked-LM head reads each layer through a lens: :meth:`masked_features` and what rests on it."""
        twin = self.twin()
        twin.lens = lens
        return twin

    def fast_twin(self, *, packs: bool = True) -> Encoder:
        """A twin for passes without gradients, on packed weights where those are faster; itself where it is one.

        Its hidden states differ from this encoder's in the last digits of float32. Its own twins share its weights.
        Packed weights take memory for every new shape of a batch: not to be used where there are ever more.
        """
        if self.is_fast:
            return self
        twin, is_fast = self.twin(), has_one_dnn() and (self.dtype != "bfloat16" or bfloat16_is_fast())
        if packs and is_fast and self.model.is_stock and self.device == "cpu" and self.dtype != "float16":
            pack(twin.model.body)
        twin.is_fast = True
        return twin

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the model's content; see :func:`model_fingerprint`."""
        return model_fingerprint(self.source, init=self.init, seed=self.seed)

    @property
    def device(self) -> str:
        """The device that the model is on."""
        return str(next(self.model.body.parameters()).device)

    @property
    def n_segments(self) -> int:
        """Number of token types that the model takes; 1 where it has no segments."""
        body: Any = self.model.body
        if "token_type_ids" not in inspect.signature(body.forward).parameters:
            return 1
        return max(1, getattr(body.config, "type_vocab_size", 0) or 0)

    @property
    def has_masked_lm_head(self) -> bool:
        """Whether :meth:`masked_logits` is available."""
        return self.model.with_head is not None

    @cached_property
    def masked_head(self) -> heads.LanguageHead:
        """The masked-LM head in two steps; a ModelError where the model has none."""
        if self.model.with_head is None:
            raise heads.no_masked_lm(self.name, self.model.body, "no masked-LM head in its weights")
        return heads.LanguageHead(self.model.with_head)

    @cached_property
    def next_sentence_head(self) -> heads.NextSentenceHead:
        """The head that predicts whether one sentence follows another; a ModelError where the model has none."""
        return heads.next_sentence_head(self)

    @cached_property
    def replaced_token_head(self) -> heads.ReplacedTokenHead:
        """The head that tells replaced tokens from original ones; a ModelError where the model has none."""
        return heads.replaced_token_head(self)

    @cached_property
    def causal_head(self) -> heads.LanguageHead | None:
        """The head that predicts the next piece, read from the model's files at first use; None of other models."""
        return heads.causal_head(self)

    @cached_property
    def mask_id(self) -> int:
        """Vocabulary number of the mask; a ModelError where the tokenizer has none."""
        if self.tokenizer.mask_token_id is None:
            raise heads.no_masked_lm(self.name, self.model.body, "its tokenizer has no mask token")
        return int(self.tokenizer.mask_token_id)

    @property
    def mask_token(self) -> str:
        """The mask token."""
        return str(self.tokenizer.convert_ids_to_tokens(self.mask_id))

    def tokenize(
        self,
        sentences: Texts,
        *,
        on_long: OnLong = "window",
        max_pieces: int | None = None,
        encoding: Encoding | None = None,
    ) -> Pieces:
        """Tokenise sentences as natural text, and align words to pieces by character offsets.

        A piece that straddles two words belongs to both, one of white space alone (or a mere word-boundary mark) to the
        word that follows. Text that spells a special token (``[MASK]``) is read as that token.

        Args:
            sentences: the text: sentences, or plain texts, each taken as one sentence; a CorpusError is raised where
                one cannot be encoded.
            on_long: treatment of a sentence longer than ``max_pieces``: ``window`` reads overlapping windows, each
                word where it has most context; ``error`` raises a ModelError; ``skip`` skips its words.
            max_pieces: pieces in one window, special tokens included; as many as the model takes when left out.
            encoding: input form of the sentences; words of windows that it makes too long are skipped. A ModelError is
                raised where no window fits, or the tokenizer cannot encode pairs of texts.
        """
        reader = self._reader if max_pieces is None else replace(self._reader, max_pieces=max_pieces)
        return reader.tokenize(sentences, on_long=on_long, encoding=encoding)

    def first_tokens(self, sentences: Texts, *, on_long: OnLong = "window") -> Pieces:
        """The first special token of each sentence (``[CLS]`` of BERT), in the place of words; see :meth:`tokenize`.

        Only the first window of a sentence is kept. A sentence without pieces, or left out as too long, is skipped.
        A ModelError is raised where there is no such token.
        """
        return self._reader.first_tokens(sentences, on_long=on_long)

    def hidden_states(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        layers: Sequence[int],
        token_type_ids: Tensor | None = None,
        position_shift: Tensor | int = 0,
        check: bool = True,
    ) -> dict[int, Tensor]:
        """Hidden states ``[batch, piece, dim]`` of some layers; no block beyond the deepest of them runs.

        A ModelError is raised for a layer, or positions, that the model does not have or take, a SignalError for hidden
        states that are not finite.

        Args:
            input_ids: ``[batch, piece]``
            attention_mask: ``[batch, piece]`` 1 for pieces, 0 for padding; unpadded rows are faster without one.
            layers: 0 for the embeddings, 1…``n_layers`` for the blocks.
            token_type_ids: ``[batch, piece]`` segment of each piece, all 0 when left out.
            position_shift: added to the positions of all pieces, or ``[piece]`` to that of each; T5 has none.
            check: whether they are checked to be finite, for which an accelerator has to be waited for.
        """
        checked = frozenset(layers_from_end(layers, lowest=0, n_layers=self.n_layers))
        given = {"attention_mask": attention_mask, "token_type_ids": token_type_ids}
        inputs = self._inputs(input_ids, position_shift, **given)
        with self._forward():
            states = run_to_layers(self.model.body, self.model.blocks, inputs, checked)
        if check:
            self.check_finite("hidden states", states)
        return states

    def attentions(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, *, layers: Sequence[int], **inputs: Any
    ) -> dict[int, Tensor]:
        """``[batch, head, piece, piece]`` attention maps by layer, computed by the plain ("eager") attention.

        They are from (rows) each piece to (columns) each piece. Inputs are those of :meth:`hidden_states`; ``layers``
        count from 1. Errors are those of :meth:`hidden_states`, and a ModelError for a model that gives no maps.
        """
        checked = layers_from_end(layers, lowest=1, n_layers=self.n_layers)
        given = self._inputs(input_ids, attention_mask=attention_mask, **inputs)
        with self._forward(), self.plain_attention():
            maps = self.model.body(**given, return_dict=True, output_attentions=True).attentions
        if maps is None or len(maps) != self.n_layers or any(part is None for part in maps):
            raise ModelError(f"model {self.name}: {type(self.model.body).__name__} gives no attention maps")
        chosen = {layer: maps[layer - 1] for layer in sorted({*checked})}
        self.check_finite("attention maps", chosen, by_head=True)
        return chosen

    def masked_logits(
        self, input_ids: Tensor, positions: Tensor, *, candidates: Tensor | None = None, **inputs: Any
    ) -> dict[int, Tensor]:
        """``[place, entry]`` logits of the masked-LM head by layer; those of earlier layers are the logit lens.

        Only these places pass through the head, and only the candidates' rows of its projection. Where the model has a
        final norm before its head (ModernBERT), earlier layers pass it too. Errors are those of :meth:`hidden_states`,
        and a ModelError where there is no such head.

        Args:
            input_ids: ``[batch, piece]`` with :attr:`mask_id` where a piece is to be predicted.
            positions: ``[place, 2]`` row in the batch and piece in the row.
            candidates: ``[candidate]`` vocabulary numbers to score; all when left out.
            inputs: as of :meth:`hidden_states`; ``layers`` are the last one when left out.
        """
        features = self.masked_features(input_ids, positions, **inputs)
        chosen = None if candidates is None else candidates.to(self.device)
        return {layer: self.vocabulary_logits(vectors, chosen, layer=layer) for layer, vectors in features.items()}

    def vocabulary_logits(self, features: Tensor, candidates: Tensor | None = None, *, layer: int) -> Tensor:
        """The logits of :meth:`masked_logits`, from some ``[place, feature]`` of :meth:`masked_features`."""
        with self._forward():
            logits = self.masked_head.logits(features, candidates)
        self.check_finite("masked-LM logits", {layer: logits})
        return logits

    def masked_features(
        self, input_ids: Tensor, positions: Tensor, *, layers: Sequence[int] | None = None, **inputs: Any
    ) -> dict[int, Tensor]:
        """``[place, feature]`` input, by layer, of the masked-LM head's projection; see :meth:`masked_logits`."""
        self.masked_head  # noqa: B018 - raises where there is none
        wanted = self.n_layers if layers is None else layers
        checked = frozenset(layers_from_end(wanted, lowest=0, n_layers=self.n_layers))
        given, places = self._inputs(input_ids, **inputs), positions.to(self.device)
        with self._forward():
            states = states_at(self.model, given, checked, places, family=self.family, n_heads=self.n_heads)
            self.check_finite("hidden states", states)
            return {layer: self.head_features(state, layer=layer) for layer, state in states.items()}

    def head_features(self, states: Tensor, *, layer: int) -> Tensor:
        """``[place, feature]`` of ``[place, dim]`` hidden states of a layer, seen through the lens if there is one."""
        head = self.masked_head
        if layer < self.n_layers and self.family not in heads.FINAL_NORM:
            only = f"only the last layer ({self.n_layers}) is"
            raise ModelError(f"layer {layer}: the logit lens is not known for {self.family} models, {only}")
        seen = states if self.lens is None else self.lens(layer, states)
        norm = None if layer == self.n_layers else heads.FINAL_NORM[self.family]
        return head.features(seen if norm is None else self.model.body.get_submodule(norm)(seen))

    @property
    def task_head(self) -> heads.HeadKind | None:
        """Kind of the head for a task that the model was saved with, or has in memory; None without one."""
        if self.model.with_task is not None:
            return heads.task_head([type(self.model.with_task).__name__])
        names = () if self.model.whole is not None else getattr(self.model.body.config, "architectures", None)
        return heads.task_head(names or ())

    @property
    def task_model(self) -> Any:
        """The model of transformers with the head of its task around this encoder's body, read at first use; a
        ModelError where the model has no such head."""
        if self.model.with_task is None:
            self.model = replace(self.model, with_task=heads.read_task_model(self))
        return self.model.with_task

    def task_output(self, input_ids: Tensor, **tensors: Tensor | None) -> Any:
        """The output of the head of the model's task, as transformers gives it: ``logits``, or ``start_logits`` and
        ``end_logits``. Inputs are those of :meth:`hidden_states`; errors those of :attr:`task_model`, and a SignalError
        for logits that are not finite."""
        model, inputs = self.task_model, self._inputs(input_ids, 0, **tensors)
        with self._forward():
            output = model(**inputs, return_dict=True)
        signals = {name: value for name, value in output.items() if name.endswith("logits")}
        for name, logits in signals.items():
            self.check_finite(name.replace("_", " "), {self.n_layers: logits})
        return output

    def vectors(
        self, texts: Any, *, layers: Layers = "all", word: str | None = None, pooling: Pooling = "mean"
    ) -> LabelledArray:
        """The vectors of the words of some texts: axes ``layer``, ``word`` and ``dim``.

        A label of a word is the number of its text, its place there, both from 1, and its form. A ModelError is raised
        for no such layer, or a word without a vector, a CorpusError for a text without words, or without ``word``.

        Args:
            texts: one or several, each a string, or a list of its words. Long ones are read in windows.
            layers: 0 for the embeddings, 1…L for the blocks, negative ones from the last.
            word: the vectors of this form alone, in whatever case it is written.
            pooling: of a word's pieces: ``mean``, ``first`` or ``last``.
        """
        sentences = Sentences(as_sentences(texts))
        chosen = layers_from_end(layers, lowest=0, n_layers=self.n_layers)
        vectors = WindowReader(self, sentences, pooling=pooling).read_all(chosen).numpy()
        words = _labels(sentences)
        places = [place for place, (_, _, form) in enumerate(words) if word is None or form.lower() == word.lower()]
        if not places:
            raise CorpusError(f"word {quoted(str(word))} stands in none of the texts; give texts in which it does")
        return self._labelled(vectors[:, places], chosen, [words[place] for place in places])

    def _labelled(self, vectors: Any, layers: Sequence[int], words: Sequence[_Label]) -> LabelledArray:
        labels = {"layer": layers, "word": words, "dim": range(self.dim)}
        return LabelledArray(vectors, labels, {"word": ("text", "place", "word")}, n_layers=self.n_layers)

    def run(
        self,
        texts: Any,
        *,
        interventions: Sequence[Intervention] = (),
        layers: Layers = "all",
        pooling: Pooling = "mean",
    ) -> EncoderRun:
        """Run some texts with what the model computes changed on the way, and read its words and its masks.

        >>> from bertology.encoders import Intervention
        >>> swapped = Intervention.patching(3, encoder, "The guard [MASK] open.", words=2)  # doctest: +SKIP
        >>> encoder.run("The guards [MASK] open.", interventions=[swapped])  # doctest: +SKIP

        Args:
            texts: as of :meth:`vectors`; masks are written ``[MASK]``, ``{mask}`` or ``<mask>``.
            interventions: made one after the other where they are of one site.
            layers: of the vectors, as of :meth:`vectors`.
            pooling: of a word's pieces: ``mean``, ``first`` or ``last``.

        Raises:
            ModelError: no such layer or site, a text longer than the model takes, or a change that does not keep shape
                and type.
            CorpusError: a text without words, or words of an intervention that stand in none of them.
        """
        has_mask = self.tokenizer.mask_token_id is not None
        sentences = Sentences(as_sentences(_spelled(texts, self.mask_token) if has_mask else texts))
        words, chosen = _labels(sentences), layers_from_end(layers, lowest=0, n_layers=self.n_layers)
        of_words = [None if one.words is None else _is_chosen(one.words, words) for one in interventions]

        def around(batch: Batch) -> AbstractContextManager[None]:
            placed = [
                one if is_chosen is None else one.at(reader.pieces_in_rows(batch, is_chosen))
                for one, is_chosen in zip(interventions, of_words, strict=True)
            ]
            body, blocks = self.model.body, self.model.blocks
            return intervening(body, blocks, placed, n_heads=self.n_heads, family=self.family)

        reader = WindowReader(self, sentences, pooling=pooling, around=around)
        if len(reader.lengths) > len(sentences):
            raise ModelError(f"a text is longer than the {self.max_pieces} pieces that the model takes: shorten it")
        masks = reader.read_at(self.mask_id) if has_mask else np.zeros(0, dtype=np.int64)
        vectors = reader.read_all((*chosen, self.n_layers))
        logits = None
        if self.has_masked_lm_head and len(masks):
            states = vectors[-1, torch.from_numpy(masks)].to(self.device, next(self.model.body.parameters()).dtype)
            with torch.inference_mode():
                features = self.head_features(states, layer=self.n_layers)
            values = self.vocabulary_logits(features, layer=self.n_layers).float().cpu().numpy()
            entries = self.tokenizer.convert_ids_to_tokens(range(values.shape[1]))
            labels = {"mask": [words[n] for n in masks], "entry": entries}
            logits = LabelledArray(values, labels, {"mask": ("text", "place", "word")})
        return EncoderRun(self._labelled(vectors[:-1].numpy(), chosen, words), logits)

    def attention(
        self,
        text: Any,
        second: Any = None,
        *,
        target: Any = None,
        layers: Layers = "all",
        level: Literal["word", "piece"] = "word",
    ) -> LabelledArray:
        """The attention maps of a text, or of a pair: axes ``layer``, ``head`` (from 1), ``from`` and ``to``.

        Args:
            text: a string, or a list of its words.
            second: of a pair that the model takes, the second text.
            target: of an encoder-decoder (T5, BART), the text that its decoder reads: the maps are then those of
                cross-attention, from the target's pieces, as the decoder is given them, to the text.
            layers: from 1, negative ones from the last.
            level: between words, special tokens in their places, or between ``piece``s.

        Raises:
            ModelError: no such layer, a text longer than the model takes, a model that gives no maps, or a target
                where it has no decoder.
            CorpusError: a text without words.
        """
        array: LabelledArray = PROVIDED["attention"](self, text, second, target=target, layers=layers, level=level)
        return array

    def check_finite(self, what: str, signals: Mapping[int, Tensor], *, by_head: bool = False) -> None:
        """Raise a ``SignalError`` for a signal of this model, by layer, that holds NaN or infinity."""
        check_finite(what, signals, name=self.name, model=self.model.outermost, by_head=by_head)

    @property
    def is_gated(self) -> bool:
        """Whether heads are scaled by :meth:`gated_heads`."""
        return bool(self._gates)

    @contextlib.contextmanager
    def gated_heads(self, gates: Gates) -> Iterator[None]:
        """Scale heads in every pass inside the context: 0 silences a head, 1 leaves it as it is.

        Gates are by (layer, head), both from 1, and are one number, or ``[batch]`` one for each row of the batch. They
        may be tensors that require gradients; passes inside the context then record gradients of these alone. A
        ModelError is raised for a head that the model does not have, or gates inside gates.
        """
        if self.is_gated:
            raise ModelError("heads are gated already: give all gates to one gated_heads")
        check_gates(gates, n_layers=self.n_layers, n_heads=self.n_heads)
        self._gates = dict(gates)
        try:
            with gating(self.model.body, self.model.blocks, gates, n_heads=self.n_heads, family=self.family):
                yield
        finally:
            self._gates = {}

    @contextlib.contextmanager
    def plain_attention(self) -> Iterator[None]:
        """The plain ("eager") attention, which gives maps, in every pass inside the context."""
        body: Any = self.model.body
        before = body.config._attn_implementation
        if not (before in ("eager", "sdpa") or self.model.is_stock):
            remedy = "which gives no maps: set eager or sdpa"
            raise ModelError(f"model {self.name} computes attention by {before!r}, {remedy}")
        try:
            if not self._eager:
                body.set_attn_implementation("eager")
        except (ValueError, NotImplementedError) as error:
            reason = str(error).splitlines()[0][:120]
            raise ModelError(f"model {self.name} has no plain attention, so gives no maps ({reason})") from None
        try:
            yield
        finally:
            if not self._eager:
                body.set_attn_implementation(before)

    def _forward(self) -> AbstractContextManager[Any]:
        """Gradients are recorded for gates that require them alone."""
        need_gradients = any(isinstance(gate, Tensor) and gate.requires_grad for gate in self._gates.values())
        return torch.enable_grad() if need_gradients else torch.inference_mode()

    def _inputs(self, ids: Tensor, position_shift: Tensor | int = 0, **tensors: Tensor | None) -> dict[str, Tensor]:
        """The inputs of the body; with a shift, the positions that it would count itself, if it has any, and more."""
        tensors["input_ids"] = ids
        body, shifts = cast(Any, self.model.body), torch.as_tensor(position_shift).cpu()
        takes_positions = "position_ids" in inspect.signature(body.forward).parameters
        if shifts.any() and takes_positions:
            positions = torch.arange(ids.shape[1]) + shifts
            for place, module in body.named_modules():
                if place.endswith("position_embeddings") and isinstance(module, nn.Embedding):
                    if module.padding_idx is not None:
                        positions = positions + module.padding_idx + 1  # RoBERTa and its kin count from there
                    if (last := int(positions.max())) >= module.num_embeddings:
                        raise ModelError(
                            f"model {self.name}: position {last} of {ids.shape[1]} pieces is not among its "
                            f"{module.num_embeddings} positions: give a smaller shift or shorter texts"
                        )
            tensors["position_ids"] = positions[None]
        elif shifts.any() and not hasattr(body.config, "relative_attention_num_buckets"):
            raise ModelError(f"model {self.name}: {type(body).__name__} takes no position_ids: leave the shift out")
        # From memory that is not pinned, a copy that is not waited for has been read when the call returns.
        how: dict[str, Any] = {"device": self.device, "non_blocking": self.device.startswith("cuda")}
        return {name: tensor.to(**how) for name, tensor in tensors.items() if tensor is not None}


class WindowReader:
    """Tokenises sentences once and reads batches of their windows, from several threads at a time if wanted.

    With the pooling ``cls``, the first special token of a sentence takes the place of its words throughout; it is read
    in the plain encoding alone. A batch that does not fit into memory is read in halves, and so is every later one.
    ``around`` makes the context of the pass over a batch.
    """

    def __init__(
        self,
        encoder: Encoder,
        sentences: Sentences,
        *,
        pooling: str = "mean",
        on_long: str = "window",
        encoding: Encoding | None = None,
        notify: Callable[[str], None] = print,
        n_threads: int = 1,
        around: Callable[[Batch], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        self.encoder, self._around, self._notify = encoder, around, notify
        # An encoder serves one thread at a time, so there is a twin of it for each further thread.
        self._free: SimpleQueue[Encoder] = SimpleQueue()
        for each in (encoder, *(encoder.twin() for _ in range(n_threads - 1))):
            self._free.put(each)
        self._is_cls, long = pooling == CLS, cast(OnLong, on_long)
        self._pooling = cast(Pooling, "first" if self._is_cls else pooling)
        self.pieces = (
            encoder.first_tokens(sentences, on_long=long)
            if self._is_cls
            else encoder.tokenize(sentences, on_long=long, encoding=encoding)
        )
        """The text as windows of subwords."""
        self.lengths = self.pieces.window_lengths
        """``[window]`` pieces in each window, special ones included."""
        self._most_windows: int | None = None
        self._unchecked: list[tuple[Batch, Tensor]] = []  # with [layer] sums, of what goes into pinned memory
        # Words by the window they are read from; those read from none (−1) come first and are left out.
        window_of_word = self.pieces.word_window
        self._words = np.argsort(window_of_word, kind="stable")
        self._word_starts = np.searchsorted(window_of_word[self._words], np.arange(len(self.lengths) + 1))

    def pieces_in(self, batch: Batch) -> int:
        """Number of pieces in a batch, without padding."""
        return int(self.lengths[batch.windows].sum())

    def words_in(self, batch: Batch) -> NDArray[np.int64]:
        """Numbers of the words read from a batch, in the order of its windows."""
        starts = self._word_starts
        return np.concatenate([self._words[starts[window] : starts[window + 1]] for window in batch.windows])

    def pieces_in_rows(self, batch: Batch, is_chosen: NDArray[np.bool_]) -> list[Tensor]:
        """``[row]`` of a batch the numbers of the pieces of some of its words; ``is_chosen [word]`` is of all words."""
        rows = []
        for window in batch.windows.tolist():
            words = self._words[self._word_starts[window] : self._word_starts[window + 1]]
            words = words[is_chosen[words]]
            spans = zip(self.pieces.word_first[words], self.pieces.word_last[words], strict=True)
            rows.append(torch.tensor(sorted({piece for span in spans for piece in range(*span)}), dtype=torch.int64))
        return rows

    def read_at(self, entry: int) -> NDArray[np.int64]:
        """Read words that have a vocabulary entry, such as the mask, among their pieces from that piece alone.

        Returns their numbers, one word for each such piece.
        """
        pieces, places = self.pieces, np.flatnonzero(self.pieces.ids == entry)
        starts = pieces.window_starts[pieces.word_window]
        number, end = (np.searchsorted(places, starts + of_word) for of_word in (pieces.word_first, pieces.word_last))
        words = np.flatnonzero((number < end) & (pieces.word_window >= 0))
        first, last = pieces.word_first.copy(), pieces.word_last.copy()
        first[words] = places[number[words]] - starts[words]
        last[words] = first[words] + 1
        self.pieces = replace(pieces, word_first=first, word_last=last)
        return words[np.unique(number[words], return_index=True)[1]]

    def read_all(self, layers: Sequence[int]) -> Tensor:
        """The vectors ``[layer, word, dim]`` (float32) of all words; a ModelError where a word has none."""
        for lost in self.pieces.skipped[:1]:
            what = f"{'sentence' if self._is_cls else 'word'} {quoted(lost.form)}"
            raise ModelError(f"{what} has no vector ({lost.reason}): leave it out, or take another model")
        vectors = torch.empty(len(layers), self.pieces.n_words, self.encoder.dim)
        for batch in plan_batches(self.lengths, pieces=pieces_in_batch(self.encoder.device)):
            words = self.words_in(batch)
            of_batch = torch.empty(len(layers), len(words), self.encoder.dim)
            self.read(batch, layers, into=of_batch)
            vectors[:, torch.from_numpy(words)] = of_batch
        return vectors

    def read(self, batch: Batch, layers: Sequence[int], *, into: Tensor) -> None:
        """Read a batch and write the vectors of its words ``into [layer, word, dim]``.

        A GPU writes into its own memory or pinned memory while later batches are read: there all is written and
        checked once :meth:`finish` has returned.
        """
        encoder = self._free.get()
        most = self._most_windows or len(batch.windows)
        start = row = 0
        try:
            while start < len(batch.windows):
                part = Batch(batch.windows[start : start + most], batch.length, batch.is_padded)
                n_words = len(self.words_in(part))
                try:
                    self._read(encoder, part, layers, into[:, row : row + n_words])
                except (MemoryError, RuntimeError) as error:
                    if not is_out_of_memory(error):
                        raise
                    if len(part.windows) == 1:
                        doing = f"a window of {batch.length} pieces on {encoder.device}"
                        remedy = "lower max_pieces (--max-pieces), use bfloat16 (--dtype) or another device"
                        raise ShortMemoryError(shortage(doing, error, remedy=remedy)) from error
                    if encoder.device.startswith("cuda"):
                        torch.cuda.empty_cache()
                    most = self._most_windows = len(part.windows) // 2
                    self._notify(f"out of memory: batches halved to {most} windows of {batch.length} pieces")
                    continue
                start += len(part.windows)
                row += n_words
        finally:
            self._free.put(encoder)

    def finish(self, layers: Sequence[int]) -> bool:
        """Wait for all that a GPU has read; a SignalError where hidden states are not finite.

        Returns whether vectors are known to be finite in the type that they were written in.
        """
        waiting, self._unchecked = self._unchecked, []
        if not waiting:
            return False
        are_finite = torch.stack([sums for _, sums in waiting]).isfinite().all(1).tolist()
        for (batch, _), is_finite in zip(waiting, are_finite, strict=True):
            if not is_finite:  # read again, to say what is not
                size = len(layers), len(self.words_in(batch)), self.encoder.dim
                self._read(self.encoder, batch, layers, torch.empty(size))
        return all(are_finite)

    def _read(self, encoder: Encoder, batch: Batch, layers: Sequence[int], into: Tensor) -> None:
        pieces, words = self.pieces, self.words_in(batch)
        arrays = pieces.inputs(batch.windows, batch.length, is_padded=batch.is_padded)
        if encoder.n_segments == 1:
            arrays.pop("token_type_ids", None)  # both segments are one to it
        inputs: dict[str, Any] = {name: torch.from_numpy(values) for name, values in arrays.items()}
        n_words = self._word_starts[batch.windows + 1] - self._word_starts[batch.windows]
        starts = np.repeat(np.arange(len(batch.windows)) * batch.length, n_words)  # of the row that a word is in
        of_words = (pieces.word_first[words], pieces.word_last[words])
        first, last = (torch.from_numpy(starts + bound) for bound in of_words)
        pool = WordPooling(first, last, self._pooling).on(encoder.device)
        is_later = encoder.device.startswith("cuda") and (into.is_cuda or into.is_pinned())
        with self._around(batch):
            hidden = encoder.hidden_states(inputs.pop("input_ids"), **inputs, layers=layers, check=not is_later)
        sums = []
        with torch.inference_mode():
            for vectors, layer in zip(into, layers, strict=True):
                pooled = pool(hidden[layer])
                if is_later:
                    pooled = pooled.to(into.dtype)
                    sums += [hidden[layer].sum(dtype=torch.float32), pooled.sum(dtype=torch.float32)]
                vectors.copy_(pooled, non_blocking=is_later)
            if is_later:
                self._unchecked.append((batch, torch.stack(sums)))


def read_words(
    encoder: Encoder, texts: Texts, *, layers: Sequence[int], pooling: str = "mean", encoding: Encoding | None = None
) -> Tensor:
    """The vectors ``[layer, word, dim]`` (float32) of all words of some sentences, without the store.

    Args:
        encoder: the model.
        texts: sentences, or plain texts, each taken as one sentence; long ones are read in windows.
        layers: 0 for the embeddings, 1…L for the blocks, -1 for the last of them.
        pooling: of a word's pieces: ``mean``, ``first`` or ``last``; or ``cls``, the vectors ``[layer, sentence, dim]``
            of the first special tokens. A ModelError is raised where there is none, or a word has no pieces.
        encoding: how sentences are put to the model; each by itself when left out.
    """
    chosen = layers_from_end(layers, lowest=0, n_layers=encoder.n_layers)
    return WindowReader(encoder, as_sentences(texts), pooling=pooling, encoding=encoding).read_all(chosen)


def _labels(sentences: Sentences) -> list[_Label]:
    return [(n, k, form) for n, one in enumerate(sentences, 1) for k, form in enumerate(one.words, 1)]


def _spelled(texts: Any, mask: str) -> Any:
    """Texts whose masks are those of the model."""
    if isinstance(texts, str):
        return with_masks(texts, mask)
    return [_spelled(one, mask) for one in texts] if isinstance(texts, list | tuple) else texts


def _is_chosen(words: Words, labels: Sequence[_Label]) -> NDArray[np.bool_]:
    """``[word]`` whether a word is one of those named; a CorpusError where one that is named stands in no text."""
    chosen = np.zeros(len(labels), dtype=bool)
    for name in [words] if isinstance(words, int | str) else words:
        wanted = name.lower() if isinstance(name, str) else name
        of_name = [wanted in (place, form.lower()) for _, place, form in labels]
        if not any(of_name):
            known = listed([f"{place} {form}" for _, place, form in labels])
            which = quoted(name) if isinstance(name, str) else name
            raise CorpusError(f"word {which} of an intervention stands in none of the texts: their words are {known}")
        chosen |= np.array(of_name)
    return chosen
