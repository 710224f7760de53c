"""The model that is trained, with its head or adapters, and its optimizer."""

import importlib.util
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save, save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from bertology._files import explained_write_errors, real_path, write_atomically
from bertology._machine import explained_shortage, quiet_loading
from bertology._names import layer_number
from bertology._training import Batch, weight_groups
from bertology.compression import smallest_weights
from bertology.encoders import Encoder, ModelSource, architectures, load_encoder
from bertology.encoders.interventions import find_embeddings, find_part
from bertology.encoders.loading import TunableModel, blocks_of, load_tunable
from bertology.encoders.sources import merge_adapters, one_line, save_model
from bertology.errors import BertologyError, ModelError
from bertology.finetuning._items import IGNORED, Collator, Inputs, Items, Row, TuningTask, output_of
from bertology.finetuning._settings import FineTuneSettings

_MOST_KEPT = 1 << 30
_BATCH = 64


def layers_read(features: str, n_layers: int, *, name: str) -> tuple[int, ...]:
    """The layers of each choice of features, 0 the embedding output; ModelError where the model ``name`` lacks one."""
    kind, _, given = features.partition(":")
    last_four = tuple(range(n_layers - 3, n_layers + 1))
    chosen = {
        "layer": (layer_number(int(given or 0), n_layers),),
        "embeddings": (0,),
        "second_to_last": (n_layers - 1,),
        "last": (n_layers,),
        "sum_last_four": last_four,
        "concat_last_four": last_four,
        "sum_all": tuple(range(1, n_layers + 1)),
    }[kind]
    if not 0 <= chosen[-1] <= n_layers or (kind.endswith("four") and chosen[0] < 1):
        raise ModelError(f"features {features}: model {name} has {n_layers} layers; choose another")
    return chosen


class FrozenStates:
    """Hidden states of a frozen encoder, ``[layer, input, piece, dim]``; of inputs that were kept they are read once.

    What is kept depends on the inputs alone, so that a run that goes on after a stop has the same states, bit for bit.
    """

    def __init__(self, encoder: Encoder, layers: Sequence[int]) -> None:
        self._encoder, self._layers = encoder, tuple(layers)
        self._kept: dict[bytes, Tensor] = {}

    def keep(self, inputs: Sequence[Inputs], collator: Collator) -> None:
        """Read all inputs once, unless their states would take more than 1 GiB."""
        n_pieces = sum(len(row) for split in inputs for row in split.rows)
        if 4 * n_pieces * len(self._layers) * self._encoder.dim > _MOST_KEPT:
            return
        for rows in chain.from_iterable(split.batches(_BATCH) for split in inputs):
            states = self(rows, collator.inputs(rows))
            by_row = states.permute(1, 2, 0, 3)  # [input, piece, layer, dim]
            self._kept |= {row.key: one[: len(row)].clone() for row, one in zip(rows, by_row, strict=True)}

    def __call__(self, rows: Sequence[Row], inputs: Mapping[str, Tensor]) -> Tensor:
        """The states of a batch; of padding they are arbitrary."""
        encoder = self._encoder
        if all(row.key in self._kept for row in rows):
            kept = pad_sequence([self._kept[row.key] for row in rows])  # [piece, input, layer, dim]
            return kept.permute(2, 1, 0, 3).contiguous()
        given: dict[str, Any] = {name: values.to(encoder.device) for name, values in inputs.items()}
        states = encoder.hidden_states(**given, layers=self._layers)
        # Copies: what was computed in inference mode cannot take part in gradients.
        return torch.stack([states[layer] for layer in self._layers]).float().clone()


class Mix(nn.Module):
    """A weighted sum of layers: weights that sum to 1, times one scale (Peters et al. 2018, eq. 1)."""

    def __init__(self, n_layers: int) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(n_layers))
        self.scale = nn.Parameter(torch.ones(()))

    @property
    def weights(self) -> Tensor:
        """``[layer]`` the weights, which sum to 1."""
        return self.scores.softmax(0)

    def forward(self, states: Tensor) -> Tensor:
        """``[input, piece, dim]`` from ``[layer, input, piece, dim]``."""
        return self.scale * torch.einsum("l,lbpd->bpd", self.weights, states)


class FrozenHead(nn.Module):
    """Hidden states of some layers, a mix of them, maybe an LSTM, and a linear layer.

    Of a text it reads the mean over its pieces; of a pair the means u and v of both texts, |u − v| and u · v by
    dimension (Conneau et al. 2017); of words their first piece; of answers each piece.
    """

    def __init__(self, encoder: Encoder, task: TuningTask, settings: FineTuneSettings, items: Items) -> None:
        super().__init__()
        self.layers = layers_read(settings.features, encoder.n_layers, name=encoder.name)
        self.kind, self.are_pairs = task.kind, task.kind in ("labels", "numbers") and items.are_pairs
        self.mix = Mix(len(self.layers)) if settings.features.startswith("sum_") else None
        width = encoder.dim * (len(self.layers) if self.mix is None else 1)
        self.lstm: nn.LSTM | None = None
        if settings.head == "bilstm":
            self.lstm = nn.LSTM(width, encoder.dim, num_layers=2, batch_first=True, bidirectional=True)
            width = 2 * encoder.dim
        n_outputs = len(task.labels) or (2 if task.kind == "answers" else 1)
        self.output = nn.Linear(width * (4 if self.are_pairs else 1), n_outputs)

    def forward(
        self,
        states: Tensor,
        attention_mask: Tensor,
        segments: Tensor,
        labels: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """``logits [input, class]``, or ``[input, piece, class]`` for tags and answers, and with labels the ``loss``.

        ``states`` are ``[layer, input, piece, dim]``, other inputs ``[input, piece]``.
        """
        vectors = self.mix(states) if self.mix is not None else states.permute(1, 2, 0, 3).flatten(2)
        if self.lstm is not None:
            lengths = attention_mask.sum(1).cpu()
            packed = pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
            vectors, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=segments.shape[1])
        if self.kind not in ("tags", "answers"):
            means = [
                (vectors * one).sum(1) / one.sum(1).clamp(min=1)
                for one in ((segments == text).to(vectors.dtype).unsqueeze(-1) for text in range(1 + self.are_pairs))
            ]
            vectors = means[0]
            if self.are_pairs:
                first, second = means
                vectors = torch.cat([first, second, (first - second).abs(), first * second], dim=-1)
        logits = self.output(vectors)
        if start_positions is not None and end_positions is not None:
            loss = (cross_entropy(logits[..., 0], start_positions) + cross_entropy(logits[..., 1], end_positions)) / 2
        elif labels is None:
            return {"logits": logits}
        elif self.kind == "numbers":
            loss = mse_loss(logits[..., 0], labels.to(logits.dtype))
        else:
            loss = cross_entropy(logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORED)
        return {"logits": logits, "loss": loss}


HEAD_FILE = "head.safetensors"
ADAPTER = "adapter"
_TRAINED = ("classifier", "score", "qa_outputs")
"""Modules of a task head that peft trains besides the adapters."""


@dataclass(frozen=True)
class Trained:
    """A model with what is needed to save it."""

    model: Any
    """The module that the Trainer trains."""
    encoder: Encoder
    """The encoder as it was before."""
    settings: FineTuneSettings
    teacher: Any = None
    """A model whose logits are learned."""
    gates: "HeadGates | None" = None
    """Gates on its heads that are trained with it."""

    def loss(self, batch: Batch) -> Tensor:
        """The loss of a batch: that of the model, the difference from a teacher, and the penalty for open heads."""
        output, weight = output_of(self.model, batch), self.settings.teacher_weight
        found: Tensor = output["loss"]
        if self.teacher is not None:
            labels, inputs = batch["labels"], {name: value for name, value in batch.items() if name != "labels"}
            with torch.no_grad():
                wanted = self.teacher(**inputs)["logits"]
            asked = labels != IGNORED
            found = weight * mse_loss(output["logits"][asked], wanted[asked]) + (1 - weight) * found
        return found if self.gates is None else found + (self.settings.gate_penalty or 0) * self.gates.n_open()

    def gated(self) -> "Trained":
        """The same model with gates on its heads, which are learned with it."""
        model, encoder = self.model, self.encoder
        gates = HeadGates(blocks_of(model, encoder.n_layers, encoder.family), encoder.family, encoder.n_heads)
        model.head_gates = gates.to(encoder.device)
        return replace(self, gates=gates)

    def close_gates(self) -> dict[str, float] | None:
        """Multiply gates into the weights for good; returns them by the names of heads, None where there are none."""
        if self.gates is None:
            return None
        del self.model.head_gates
        return self.gates.close()

    def groups(self) -> list[dict[str, Any]]:
        """The weights that are trained as groups of an optimizer, gates with a learning rate of their own."""
        groups = weight_groups(self.model, self.settings.weight_decay)
        if self.gates is not None:
            gates = self.gates.log_alpha
            groups[0]["params"] = [weight for weight in groups[0]["params"] if weight is not gates]
            groups.append({"params": [gates], "weight_decay": 0.0, "lr": self.settings.gate_lr})
        return groups

    def mix_weights(self) -> dict[str, float] | None:
        """The weight of each layer in a learned mix; None where there is none."""
        if not isinstance(self.model, FrozenHead) or self.model.mix is None:
            return None
        weights = self.model.mix.weights.detach().cpu().tolist()
        return {str(layer): weight for layer, weight in zip(self.model.layers, weights, strict=True)}

    def save(self, folder: Path) -> None:
        """Write a model folder: the trained encoder with its head; adapters are merged into it and kept as well."""
        tokenizer, is_frozen = self.encoder.tokenizer, self.settings.layers == "none"
        model = self.encoder.model.outermost if is_frozen else self.model
        if self.settings.layers in ("lora", "ia3"):
            save_model(model, folder / ADAPTER, tokenizer=tokenizer)
            model = merge_adapters(model)
        save_model(model, folder, tokenizer=tokenizer)
        if is_frozen:
            state = {name: value.detach().cpu().contiguous() for name, value in self.model.state_dict().items()}
            with explained_write_errors(folder):
                save_file(state, folder / HEAD_FILE)


def build(
    encoder: Encoder,
    task: TuningTask,
    settings: FineTuneSettings,
    *,
    seed: int,
    trust_remote_code: bool = False,
    teacher: Path | None = None,
) -> Trained:
    """A model to train, its new weights drawn by the seed, with the folder of a ``teacher``; with ``layers: none`` a
    head."""
    how, _, number = settings.layers.partition(":")
    if how == "none":
        if teacher is not None:
            raise BertologyError("teacher: a head on a frozen encoder learns labels alone: choose other layers")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return Trained(FrozenHead(encoder, task, settings, task.splits["train"]), encoder, settings)
    if settings.features != "last" or settings.head != "linear":
        raise BertologyError("features and head are those of a frozen encoder: set layers to none, or leave them out")
    given: dict[str, Any] = {"seed": seed, "trust_remote_code": trust_remote_code}
    if how == "lstm":  # an encoder of LSTMs on the embeddings of the model
        table = find_embeddings(encoder.model.body, f"layers lstm: {encoder.family}")
        given["config"] = architectures.LstmConfig(
            vocab_size=table.num_embeddings,
            hidden_size=table.embedding_dim,
            num_hidden_layers=2,
            num_attention_heads=1,  # for the record
            max_position_embeddings=encoder.max_pieces,
            pad_token_id=encoder.pad_id,
        )
    with explained_shortage(f"loading model {encoder.name}"):
        tunable = load_tunable(encoder, head=task.head, labels=task.labels or None, **given)
    model = tunable.model
    if how in ("frozen", "top"):
        tunable.freeze_to(int(number) if how == "frozen" else encoder.n_layers - int(number))
    elif how in ("lora", "ia3"):
        model = _with_adapters(tunable, encoder.source, task, settings, seed=seed)
    elif how == "adapters":
        _add_bottlenecks(tunable, settings.adapter_size, seed=seed)
    elif how == "lstm":
        model.lstm.embeddings.load_state_dict(table.state_dict())
    return Trained(model, encoder, settings, None if teacher is None else _teacher(teacher, encoder, task))


def _teacher(folder: Path, encoder: Encoder, task: TuningTask) -> Any:
    """The model of a teacher that was fine-tuned for the labels of a task, which reads what ``encoder`` reads."""
    own = load_encoder(str(folder), device=encoder.device)
    if own.tokenizer.get_vocab() != encoder.tokenizer.get_vocab():
        raise ModelError(f"teacher {folder}: it reads other subwords than {encoder.name}: give one with its tokenizer")
    is_frozen = (folder / HEAD_FILE).is_file()
    if is_frozen or task.kind in ("answers", "choices"):
        which = "a head on a frozen encoder" if is_frozen else task.kind
        raise ModelError(f"teacher {folder}: nothing is learned from {which}: give a tuned model of labels or numbers")
    return load_tunable(own, head=task.head, seed=None).model.to(encoder.device).requires_grad_(False).eval()


def _with_adapters(
    tunable: TunableModel, source: ModelSource, task: TuningTask, settings: FineTuneSettings, *, seed: int
) -> Any:
    """The model with adapters to train; all that was drawn anew is saved with them, as no other file has it."""
    if importlib.util.find_spec("peft") is None:
        raise BertologyError(f"layers {settings.layers} needs peft: pip install 'bertology[peft]'")
    with quiet_loading():
        import peft
    model, kept = tunable.model, set[str]()
    # Modules with newly initialised weights: head modules known to peft, else the single layers.
    for path in tunable.drawn:
        own = [place for place, layer in model.get_submodule(path).named_modules() if layer._parameters]
        kept |= {path} if path in _TRAINED else {f"{path}.{place}".rstrip(".") for place in own}
    kinds = {"sentence": "SEQ_CLS", "words": "TOKEN_CLS", "answers": "QUESTION_ANS"}  # peft has none for choices
    common: dict[str, Any] = {"task_type": kinds.get(task.head), "modules_to_save": sorted(kept)}
    if settings.layers == "lora":
        # peft computes with any number, though it declares whole ones.
        alpha: Any = settings.lora_alpha
        config: Any = peft.LoraConfig(**common, r=settings.lora_rank, lora_alpha=alpha)
    else:
        config = peft.IA3Config(**common)
    unknown = f"model {model.config.model_type}: peft knows no place for {settings.layers}"
    with quiet_loading(), one_line(unknown, remedy="tune it all"), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        adapted = peft.get_peft_model(model, config)
    # By this, others find the model that the adapters belong to.
    config.base_model_name_or_path = source.name if source.revision else str(real_path(source.folder))
    config.revision = source.revision
    for name, weight in adapted.named_parameters():
        # Of what is new the last layer is trained, as peft does; a new layer below it is a fixed projection.
        path, is_kept, _ = name.partition(".modules_to_save.")
        if is_kept and not path.endswith(_TRAINED):
            weight.requires_grad_(False)
    return adapted


def _add_bottlenecks(tunable: TunableModel, size: int, *, seed: int) -> None:
    """Put adapters into a model, which are trained with all norms and with what was drawn anew."""
    model = tunable.model
    if (present := getattr(model.config, architectures.ADAPTER_SIZE, size)) != size:
        raise ModelError(f"model {tunable.name}: it has adapters of size {present}: set adapter_size to this")
    if not hasattr(model.config, architectures.ADAPTER_SIZE):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            architectures.add_adapters(model, size)
    model.requires_grad_(False)
    new = map(model.get_submodule, tunable.drawn)
    parts = [module for name, module in model.named_modules() if name.endswith(".bottleneck")]
    for module in (*new, *parts, *(one for one in model.modules() if type(one).__name__.endswith("Norm"))):
        module.requires_grad_(True)


def reload(folder: Path, encoder: Encoder, task: TuningTask, settings: FineTuneSettings, items: Items) -> Any:
    """The module that :meth:`Trained.save` wrote, for predictions of items; ModelError where the head is missing."""
    if settings.layers != "none":
        return load_tunable(encoder, head=task.head, seed=None).model
    head, path = FrozenHead(encoder, task, settings, items), folder / HEAD_FILE
    if not path.is_file():
        raise ModelError(f"{path}: no such file, the head of this model; fine-tune it again")
    head.load_state_dict(load_file(path))
    return head


_LOW, _HIGH, _HEAT = -0.1, 1.1, 2 / 3
"""Bounds γ and ζ to which gates are stretched, and temperature β (Louizos et al. 2018, §4)."""
_OPEN = 2.0


class HeadGates(nn.Module):
    """A gate from 0 to 1 on the output of each head of each block, of a hard concrete distribution.

    In training a gate is drawn anew in each pass (Louizos et al. 2018, equations 10 and 11), else it is that of
    equation 13. At first a gate is open with a probability of 0.97.
    """

    def __init__(self, blocks: Sequence[nn.Module], family: str, n_heads: int) -> None:
        super().__init__()
        outputs: list[Any] = [find_part(block, family, "head") for block in dict.fromkeys(blocks)]
        self.log_alpha = nn.Parameter(torch.full((len(outputs), n_heads), _OPEN))
        self._outputs = tuple(outputs)  # no modules of this one
        hooks = enumerate(outputs)
        self._hooks = [output.register_forward_pre_hook(partial(self._scale, number)) for number, output in hooks]

    def n_open(self) -> Tensor:
        """The expected number of gates that are not 0 (equation 12)."""
        return (self.log_alpha - _HEAT * math.log(-_LOW / _HIGH)).sigmoid().sum()

    def values(self) -> Tensor:
        """``[block, head]`` the gates that are used in prediction."""
        return self._stretched(self.log_alpha)

    def _stretched(self, logits: Tensor) -> Tensor:
        return (logits.sigmoid() * (_HIGH - _LOW) + _LOW).clamp(0, 1)

    def _scale(self, block: int, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        logits = self.log_alpha[block]
        if self.training:
            logits = (logits + torch.rand_like(logits).logit(eps=1e-6)) / _HEAT
        heads: Tensor = args[0].unflatten(-1, (len(logits), -1))
        return ((heads * self._stretched(logits)[:, None]).flatten(-2), *args[1:])

    @torch.no_grad()
    def close(self) -> dict[str, float]:
        """Multiply the gates into the weights that read the heads, for good; returns them by the names of heads."""
        values = self.values()
        for output, gates, hook in zip(self._outputs, values, self._hooks, strict=True):
            hook.remove()
            output.weight.mul_(gates.repeat_interleave(output.in_features // len(gates)))
        named = enumerate(values.tolist(), 1)
        return {f"L{layer}H{head}": gate for layer, gates in named for head, gate in enumerate(gates, 1)}


def prune(ticket: Trained, folder: Path, seed: int, *, make: Callable[[], Trained], fit: Callable[..., Any]) -> int:
    """Make a lottery ticket of a model: hold the weights of its mask at zero; returns their number.

    ``make`` gives the model as it is before fine-tuning, ``fit`` fine-tunes it with a folder for checkpoints. Masks are
    kept in ``folder``, from which a stopped run goes on.
    """
    settings = ticket.settings
    mask, n_rounds = dict[str, Tensor](), settings.mask_rounds if settings.mask == "magnitude" else 1
    for number in range(1, n_rounds + 1):
        path = folder / f"{number}.safetensors"
        if path.is_file():
            mask = load_file(path)
            continue
        trained = make()
        if settings.mask == "magnitude":
            _hold(trained.model.to(trained.encoder.device), mask)
            fit(trained, folder=folder / f"round-{number}")
        config = trained.model.config
        blocks = blocks_of(trained.model, config.num_hidden_layers, config.model_type)
        linear = {id(one.weight) for block in blocks for one in block.modules() if isinstance(one, nn.Linear)}
        named = trained.model.named_parameters()
        matrices: dict[str, Tensor] = {name: one.detach().cpu() for name, one in named if id(one) in linear}
        if not matrices:
            raise ModelError(f"sparsity: the blocks of {config.model_type} models have no linear layers to prune")
        if settings.mask == "random":
            chance = torch.Generator().manual_seed(seed)
            matrices = {name: torch.rand(one.shape, generator=chance) for name, one in matrices.items()}
        found = smallest_weights([*matrices.values()], settings.sparsity * number / n_rounds)
        mask = dict(zip(matrices, found, strict=True))
        write_atomically(path, save(mask))
        shutil.rmtree(folder / f"round-{number}", ignore_errors=True)
    _hold(ticket.model, mask)
    return sum(int(one.sum()) for one in mask.values())


def _hold(model: Any, mask: Mapping[str, Tensor]) -> None:
    """Set masked weights to zero, and their gradients in every backward pass, so that they stay zero."""
    for name, weight in model.named_parameters():
        if name in mask:
            kept = ~mask[name].to(weight.device)
            with torch.no_grad():
                weight.mul_(kept)
            weight.register_hook(partial(torch.mul, kept))


_EPS = 1e-6


def uncorrected_adamw(groups: Sequence[dict[str, Any]], lr: float) -> torch.optim.AdamW:
    """AdamW whose moments are not corrected for starting at 0, as the code of Devlin et al. (2019) has it."""
    optimizer = torch.optim.AdamW(groups, lr=lr, eps=_EPS, fused=True)
    for weight in (weight for group in optimizer.param_groups for weight in group["params"]):
        # After so many steps the corrections are 1, exactly.
        moments = {name: torch.zeros_like(weight) for name in ("exp_avg", "exp_avg_sq")}
        optimizer.state[weight] = {"step": torch.tensor(1e6), **moments}
    return optimizer


ADAMW: dict[bool, Any] = {True: partial(torch.optim.AdamW, eps=_EPS, fused=True), False: uncorrected_adamw}
"""Optimizers by whether their first estimates are corrected."""
