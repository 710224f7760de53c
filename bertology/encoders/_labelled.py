"""Signals of some texts as arrays whose axes have labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bertology._names import layer_number, name_not_found
from bertology.encoders.alignment.pieces import Pooling
from bertology.errors import ModelError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from bertology.encoders.interventions import Intervention


@dataclass(frozen=True, eq=False)
class LabelledArray:
    """A small array whose axes have names, and the places of each axis labels; numpy takes it as an array."""

    values: NDArray[np.float32]
    labels: Mapping[str, Sequence[Any]]
    """By the name of each axis the labels of its places, in order; tuples where several things tell them apart."""
    parts: Mapping[str, tuple[str, ...]]
    """Of axes whose labels are tuples, what these hold."""
    breaks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By the name of an axis, the places where another text begins."""
    chosen: Mapping[str, Any] = field(default_factory=dict)
    """By the name of an axis that :meth:`at` left out, its label."""
    n_layers: int | None = None
    """Number of blocks of the model, from whose last :meth:`at` counts negative layers."""

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {len(of_axis)}" for name, of_axis in self.labels.items())
        return f"<LabelledArray: {sizes}>"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.values, dtype=dtype, copy=copy)

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self.values.shape

    def at(self, **labels: Any) -> LabelledArray:
        """The part at one label of some axes, which are left out: ``at(layer=8, head=10)``, ``at(layer=-1)``.

        Raises:
            NameNotFoundError: there is no such axis or label.
        """
        values, names = self.values, list(self.labels)
        if self.n_layers is not None and isinstance(labels.get("layer"), int):
            labels["layer"] = layer_number(labels["layer"], self.n_layers)
        for name, label in labels.items():
            if name not in self.labels:
                raise name_not_found("axis of the array", name, self.labels)
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
        import itertools

        import pandas as pd

        *rows, columns = self.labels
        levels = ([one if isinstance(one, tuple) else (one,) for one in self.labels[name]] for name in rows)
        places = itertools.product(*levels)
        names = [part for name in rows for part in self.parts.get(name, (name,))]
        tuples = [tuple(itertools.chain.from_iterable(place)) for place in places]
        index = pd.MultiIndex.from_tuples(tuples, names=names) if len(names) > 1 else [one for (one,) in tuples]
        frame = pd.DataFrame(self.values.reshape(len(tuples), -1), index=index, columns=list(self.labels[columns]))
        return frame.rename_axis(index=names, columns=columns)

    def plot(self, *, title: str | None = None) -> Figure:
        """One attention map, such as ``at(layer=8, head=10)``, as a heatmap from rows to columns.

        The figure has ``.save("head.svg")``, whose text is text, and shows itself in a notebook.

        Args:
            title: above the map; the name of the head, such as ``L8H10``, when left out.

        Raises:
            ResultsError: the array is not one map.
        """
        figure: Figure = import_module("bertology.attention").plot_head(self, title=title)
        return figure


@dataclass(frozen=True, eq=False)
class EncoderRun:
    """What an encoder gives for some texts in one run; made by :meth:`Encoder.run`."""

    vectors: LabelledArray
    """Axes ``layer``, ``word`` and ``dim``."""
    logits: LabelledArray | None
    """Of the masked-LM head at the masks: axes ``mask`` and ``entry``; None without a mask or without a head."""

    @property
    def probabilities(self) -> LabelledArray | None:
        """Those of all entries of the vocabulary at each mask: axes ``mask`` and ``entry``."""
        if self.logits is None:
            return None
        above = np.exp(self.logits.values - self.logits.values.max(axis=1, keepdims=True))
        return replace(self.logits, values=above / above.sum(axis=1, keepdims=True))


def layers_from_end(layers: int | Sequence[int] | Literal["all"], *, lowest: int, n_layers: int) -> tuple[int, ...]:
    """Layers by number, negative ones counted from the last.

    Raises:
        ModelError: the model has no such layer.
    """
    if layers == "all":
        return tuple(range(lowest, n_layers + 1))
    asked = [layers] if isinstance(layers, int) else list(layers)
    chosen = tuple(layer_number(layer, n_layers) for layer in asked)
    wrong = [one for one, layer in zip(asked, chosen, strict=True) if not lowest <= layer <= n_layers]
    if wrong or not chosen:
        which = f"layer {wrong[0]}" if wrong else "no layer"
        raise ModelError(f"{which}: layers are {lowest}…{n_layers}, or -1, -2 … from the last")
    return chosen


class LabelledSignals:
    """What an encoder gives for a few texts, as arrays with labels. For corpora there is ``activations.extract``."""

    def vectors(
        self,
        texts: Any,
        *,
        layers: int | Sequence[int] | Literal["all"] = "all",
        word: str | None = None,
        pooling: Pooling = "mean",
    ) -> LabelledArray:
        """The vectors of the words of some texts: axes ``layer``, ``word`` and ``dim``.

        A word is told by the number of its text and its place there, both counted from 1, and its form.

        Args:
            texts: one or several, each a string, or a list of its words. Long ones are read in windows.
            layers: 0 for the embeddings, 1…L for the blocks, negative ones from the last.
            word: the vectors of this form alone, in whatever case it is written.
            pooling: of a word's pieces: ``mean``, ``first`` or ``last``.

        Raises:
            ModelError: no such layer, or a word has no vector.
            CorpusError: a text without words, or none in which the word stands.
        """
        array: LabelledArray = import_module("bertology.activations").labelled_vectors(
            self, texts, layers=layers, word=word, pooling=pooling
        )
        return array

    def run(
        self,
        texts: Any,
        *,
        interventions: Sequence[Intervention] = (),
        layers: int | Sequence[int] | Literal["all"] = "all",
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
        found: EncoderRun = import_module("bertology.activations").labelled_run(
            self, texts, interventions=interventions, layers=layers, pooling=pooling
        )
        return found

    def attention(
        self,
        text: Any,
        second: Any = None,
        *,
        target: Any = None,
        layers: int | Sequence[int] | Literal["all"] = "all",
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
        array: LabelledArray = import_module("bertology.attention").labelled_attention(
            self, text, second, target=target, layers=layers, level=level
        )
        return array
