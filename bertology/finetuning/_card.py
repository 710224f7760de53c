"""The model card of a fine-tuned model."""

from __future__ import annotations

from bertology.finetuning._record import Record
from bertology.results.table import NOTHING, alignment_notes, metric_title, number, unit

_PIPELINES = {
    "labels": "text-classification",
    "numbers": "text-classification",
    "tags": "token-classification",
    "answers": "question-answering",
}
_LAYERS = {
    "all": "all layers",
    "none": "a head on the frozen encoder",
    "lora": "LoRA adapters, merged into the weights here",
    "ia3": "IA³ adapters, merged into the weights here",
}


def model_card(record: Record) -> str:
    """The card as Markdown: what was trained on what, how, and the scores."""
    settings = record.settings
    how, _, which = settings.layers.partition(":")
    trained = _LAYERS.get(how) or (f"layers above {which}" if how == "frozen" else f"the last {which} blocks")
    if how == "none":
        trained += f", on features {settings.features}"
    rows = [
        f"| {split} | {metric_title(metric)}{unit(metric)} | {number(score['value'], metric=metric)} | "
        f"{_interval(score, metric)} | {_majority(record, split, metric)} | {record.n_items[split]:,} |"
        for split, metrics in record.scores.items()
        for metric, score in metrics.items()
        if "value" in score
    ]
    aligned = alignment_notes(*filter(None, [record.texts]))
    notes = [f"- {note}" for note in (*record.warnings, *record.notes, *aligned)]
    notes += [f"- {split}: {n:,} texts were cut at their end" for split, n in record.n_cut.items() if n]
    lines = [
        "---",
        "library_name: transformers",
        f"pipeline_tag: {_PIPELINES[record.kind]}",
        "---",
        "",
        f"# {record.model}, fine-tuned on {record.task}",
        "",
        f"`{record.model}` (fingerprint `{record.model_fingerprint}`) trained further on `{record.task}` of "
        f"`{record.corpus}` (fingerprint `{record.corpus_fingerprint}`), {record.n_items['train']:,} items, "
        f"seed {record.seed}, by `bertology finetune`.",
        "",
        f"Recipe `{record.recipe}`: {settings.epochs} epochs of batches of {settings.batch_size}, AdamW "
        f"{'with' if settings.bias_correction else 'without'} bias correction, highest learning rate {settings.lr:g} "
        f"after a warm-up of {settings.warmup:.0%} of the steps, schedule {settings.schedule}, weight decay "
        f"{settings.weight_decay:g}. Trained were {trained}: {record.n_trained:,} of {record.n_weights:,} weights.",
        "",
        "## Scores",
        "",
        "After the last epoch; nothing was chosen on dev. Intervals are 95 %, by a bootstrap over items.",
        "",
        "| split | metric | value | 95 % interval | majority | items |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
        *(["## Notes", "", *notes, ""] if notes else []),
        "Settings, versions and the losses and scores of each epoch are in `finetune.json`, predictions in "
        "`predictions.parquet`.",
    ]
    return "\n".join(lines) + "\n"


def _interval(score: dict[str, float | str], metric: str) -> str:
    bounds = [number(float(score[name]), metric=metric) for name in ("ci_low", "ci_high") if name in score]
    return "–".join(bounds) or "–"


def _majority(record: Record, split: str, metric: str) -> str:
    value = record.majority.get(split, {}).get(metric)
    return NOTHING if value is None else number(value, metric=metric)
