"""Recipes of pretraining: every setting, the combinations that are refused, and reading a recipe from its file."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from bertology._settings import Settings, Text, changed, checked, file_schema, read_yaml
from bertology.errors import cut
from bertology.pocket._bilingual import SecondLanguage

Share = Annotated[float, Field(strict=True, ge=0, le=1)]
Positive = Annotated[float, Field(strict=True, gt=0, le=1e6)]
Whole = Annotated[int, Field(strict=True, ge=0, le=2**32 - 1)]
Count = Annotated[int, Field(strict=True, gt=0, le=10**9)]
Size = Annotated[int, Field(strict=True, gt=0, le=2**16)]
_ONE_SIDED = ("left_to_right", "right_to_left")
_OF_POCKET = ("documents", "salience", "salience_from", "second_language")
_OF_NEW = ("layers", "width", "heads", "inner_width", "dropout", "initializer_range", "share_layers", "stack_from")
_WHAT = "a pretraining recipe"


class PretrainSettings(Settings):
    """All settings of pretraining, which with a text and model of one's own determine the result."""

    seed: Whole = 0
    """Decides the text, the initial weights, the order of examples and what is masked."""

    text: Text | None = None
    """A text of one's own: any corpus by its name or path, such as a .txt file. With blank lines the lines between two
    of them are the sentences of a document, else each line is a document. None: the text of the pocket world."""
    documents: Annotated[Count, Field(ge=2)] = 5000
    """Documents of pretraining text, of 5 to 9 sentences each; two at least, for a pair that does not follow."""
    held_out_documents: Annotated[Count, Field(ge=2)] = 300
    """Documents of text that is only evaluated on: of one's own text its dev or test split, or its last documents."""
    vocabulary_size: Count = 1150
    """Pieces that the tokenizer learns, of each language; words that must be whole come on top."""
    second_language: SecondLanguage | None = None
    """A second language, in which half of the text is, or all of it where training starts from a model that has read
    the first; none where left out."""

    start_from: Text | None = None
    """Folder or hub id of a masked language model whose training goes on; None for random weights."""
    tokenizer: Literal["own", "new", "extended"] = "own"
    """Vocabulary of a model that training starts from: its own; one learnt from the text, where subwords of both
    keep their embeddings (SciBERT's, Beltagy et al. 2019); or its own and after it those learnt from the text."""
    freeze: Literal["none", "all_but_embeddings"] = "none"
    """Whether only embeddings of subwords and the output bias are trained (Artetxe et al. 2020, section 2); with an
    extended vocabulary those of the new subwords alone."""
    stack_from: Text | None = None
    """Folder of a shallower model that was pretrained here: its embeddings, heads and vocabulary, and its blocks
    repeated up to ``layers``, are the initial weights (Gong et al. 2019, section 3.1)."""
    share_layers: bool = Field(default=False, strict=True)
    """Whether all blocks have the same weights (ALBERT; Lan et al. 2020)."""

    layers: Size = 4
    """Transformer blocks."""
    width: Size = 128
    """Size of hidden states."""
    heads: Size = 4
    """Attention heads of each block."""
    inner_width: Size = 512
    """Size of the feed-forward layers."""
    max_pieces: Annotated[Size, Field(ge=16)] = 64
    """Longest input, special tokens included."""
    dropout: Share = 0.0
    """Dropout of hidden states and attention."""
    initializer_range: Positive = 0.06
    """Spread of fresh weights. BERT's 0.02 suits its width of 768; at a width of 128 training stalls with it."""

    objective: Literal["masked", "spans", "left_to_right", "right_to_left", "replaced_tokens"] = "masked"
    """What is predicted: masked subwords (Devlin et al. 2019); masked spans of words (Joshi et al. 2020, section 3.1,
    without their boundary objective); each subword from those before it, or from those after it; or which subwords a
    generator, saved under ``generator``, replaced (ELECTRA; Clark et al. 2020)."""
    next_sentence: Literal["none", "next_sentence", "sentence_order"] = "next_sentence"
    """What is predicted of pairs: whether the second is the next or a random one (Devlin et al. 2019), or whether the
    two are in order (Lan et al. 2020). With ``none`` one run of sentences of a document takes the place of a pair."""
    masking: Literal["dynamic", "static"] = "dynamic"
    """Whether places to predict are drawn anew each time or once for each sentence (Liu et al. 2019, section 4.1)."""
    span_end: Annotated[Share, Field(gt=0)] = 0.2
    """Probability that a span ends with a word: lengths in words are geometric, as in SpanBERT."""
    longest_span: Size = 10
    """Longest span, in words."""
    generator_share: Annotated[Share, Field(gt=0)] = 0.25
    """Width of the generator of replaced tokens as a share of ``width``; embeddings are those of the discriminator."""
    discriminator_weight: Positive = 50.0
    """Weight of the discriminator's loss; that of the generator's is 1."""

    steps: Count = 36000
    """Optimisation steps."""
    batch_pieces: Count = 768
    """Pieces in a batch."""
    pieces: Count | None = None
    """Pieces to train on in all, padding included, so that recipes with other ``batch_pieces`` compare (You et al.
    2020): the run has as many steps as they make, and all numbers of steps are taken in proportion to ``steps``."""
    alone_share: Share = 0.55
    """Share of batches that hold single sentences: a small model learns syntax soonest where there is nothing else."""
    short_share: Share = 0.35
    """Share of batches that hold pairs at half the length; the rest hold pairs at full length."""
    mask_rate: Share = 0.25
    """Share of pieces to predict: 80 % of them masked, 10 % replaced, 10 % left as they are."""
    random_replacement: bool = True
    """Whether pieces to predict may be replaced by random ones; if not, 90 % of them are masked."""
    salience: Positive = 4.0
    """Factor by which towns, countries, trades and verb forms that agree are to be predicted than other pieces:
    they are where the knowledge is, and a short run sees few of them otherwise."""
    salience_from: Whole = 4000
    """The step from which that holds; static masks are drawn so for all steps."""
    learning_rates: tuple[tuple[Whole, Share], ...] = Field(
        default=((0, 0.0), (300, 1.2e-3), (20000, 1.2e-3), (36000, 0.0)), min_length=1
    )
    """Steps and the learning rate there; in between it is interpolated."""
    weight_decay: Share = 0.01
    """AdamW's decay, of matrices only."""
    clip_norm: Positive = 1.0
    """Largest norm of the gradient."""

    checkpoint_every: Count = 1000
    """Steps between states from which a killed run resumes."""
    evaluate_every: Count = 2000
    """Steps between evaluations on held-out text."""
    keep_checkpoints: tuple[Whole, ...] = ()
    """Steps at which a whole model folder is kept under ``checkpoints/``, to probe across training; 0 is the
    untrained model."""

    @property
    def is_one_sided(self) -> bool:
        """Whether each subword is predicted from those on one side of it."""
        return self.objective in _ONE_SIDED

    @property
    def described(self) -> str:
        """The objective in words, with its source."""
        named = {
            "masked": "Masked pieces",
            "spans": "Masked spans of words (Joshi et al. 2020)",
            "left_to_right": "Next pieces, from left to right",
            "right_to_left": "Previous pieces, from right to left",
            "replaced_tokens": "Pieces that a generator replaced (Clark et al. 2020)",
        }[self.objective]
        if self.next_sentence == "next_sentence":
            named += " and next sentence (Devlin et al. 2019)"
        named += " and the order of sentences (Lan et al. 2020)" * (self.next_sentence == "sentence_order")
        more = [
            ("weights are shared over layers", self.share_layers),
            ("places to predict are drawn once for each sentence", self.masking == "static"),
            (f"initial weights are those of {self.stack_from} with its blocks repeated", self.stack_from is not None),
        ]
        return "; ".join([named, *(text for text, holds in more if holds)])

    @property
    def generator(self) -> Self:
        """The settings of the generator of replaced tokens: narrower, with heads as wide."""
        share = self.generator_share
        names = ("width", "heads", "inner_width")
        return self.model_copy(update={name: max(1, round(getattr(self, name) * share)) for name in names})

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for problem in self._problems():
            raise ValueError(problem)
        return self

    def _problems(self) -> Iterator[str]:
        """Settings that do not fit together, each with its remedy."""
        objective, is_masked = self.objective, self.objective in ("masked", "spans")
        second, generator, at = self.second_language, self.generator, [step for step, _ in self.learning_rates]
        if self.width % self.heads:
            yield f"width: {self.width} cannot be split over {self.heads} heads"
        if at != sorted(set(at)):
            yield f"learning_rates: steps must rise, but are {cut(', '.join(map(str, at)))}"
        if beyond := [step for step in self.keep_checkpoints if step > self.steps]:
            yield f"keep_checkpoints: {beyond[0]} is beyond the last of {self.steps} steps"
        if second is not None and self.alone_share < 1:
            why = "whether a sentence follows another would be told by its language"
            yield f"alone_share: with a second_language, sentences are read alone ({why}): give 1.0"
        if not is_masked and self.next_sentence != "none":
            yield f"next_sentence: with objective {objective} no pairs are read; give none"
        if self.next_sentence == "sentence_order" and self.alone_share == 1:
            yield "next_sentence: with alone_share 1 there are no pairs to order; give a smaller share, or none"
        if self.is_one_sided and self.masking == "static":
            yield f"masking: with objective {objective} nothing is masked; leave it out"
        if objective == "replaced_tokens" and generator.width % generator.heads:
            yield f"generator_share: width {generator.width} cannot be split over {generator.heads} heads"
        if self.stack_from and (self.share_layers or objective == "replaced_tokens"):
            yield "stack_from: blocks are repeated of BERTs alone; leave out share_layers and objective"
        if self.share_layers and self.second_language:
            yield "share_layers: not together with second_language; leave one of them out"
        if self.start_from is not None and self.next_sentence != "none":
            yield "next_sentence: with start_from no pairs are read; give none"
        if self.start_from and second and (second.paired or not (second.shared_specials and second.shared_positions)):
            yield "second_language: with start_from it is read alone; leave out paired and what is not shared"
        for name in ("share_layers", "second_language", "start_from"):
            if not is_masked and getattr(self, name):
                yield f"{name}: not together with objective {objective}; give masked or spans"
        of_start = "is about a model that training starts from; give start_from as well"
        for is_wrong, names, why in (
            (self.start_from is None, ("tokenizer", "freeze"), of_start),
            (self.start_from is not None, _OF_NEW, "is that of the model in start_from; leave it out"),
            (self.text, _OF_POCKET, "is about the text of the pocket world; leave it out with a text of your own"),
        ):
            for name in names:
                if is_wrong and name in self.model_fields_set:
                    yield f"{name}: {why}"

    def at_equal_pieces(self) -> Self:
        """These settings with the number of steps that ``pieces`` make, and all other steps in proportion."""
        if self.pieces is None:
            return self
        steps = max(1, round(self.pieces / self.batch_pieces))

        def scaled(step: int) -> int:
            return round(step * steps / self.steps)

        return self.model_copy(
            update={
                "steps": steps,
                "salience_from": scaled(self.salience_from),
                "learning_rates": tuple((scaled(step), rate) for step, rate in self.learning_rates),
                "evaluate_every": max(1, scaled(self.evaluate_every)),
                "keep_checkpoints": tuple(map(scaled, self.keep_checkpoints)),
            }
        )

    def held_out(self) -> Self:
        """These settings with places to predict that are drawn in the same way for all kinds of masks."""
        objective = "masked" if self.objective == "spans" else self.objective
        return self.model_copy(update={"objective": objective, "masking": "dynamic"})


def load_settings(path: Path, *, changes: Sequence[str] = ()) -> PretrainSettings:
    """Read a recipe.

    Args:
        path: a YAML file.
        changes: ``key=value`` pairs that replace what the file says.

    Raises:
        BertologyError: the file is missing or is no mapping, or a key or value is wrong; names file, line and key.
    """
    written = read_yaml(path, what=_WHAT, example="steps: 20000", command="pretrain")
    return checked(PretrainSettings, changed(written, changes))


def recipe_schema() -> Mapping[str, Any]:
    """JSON Schema of a recipe, with which editors complete and check the file."""
    return file_schema(PretrainSettings, "pretrain", title="pretraining")
