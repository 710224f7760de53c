"""Size as counted by hand, and speed beside the first model."""

from pathlib import Path

import pytest
from transformers import AutoModelForMaskedLM

from bertology import BertologyError, compress
from bertology.comparison import size_and_speed


def test_half_of_the_weights_is_zero_and_as_slow(tiny_bert: Path, tmp_path: Path) -> None:
    made = compress(tiny_bert, "magnitude", share=0.5, out=tmp_path / "half")
    frame = size_and_speed([tiny_bert, made.path], ["The dogs chased a cat ."] * 4, repeats=2)
    whole = sum(value.numel() for value in AutoModelForMaskedLM.from_pretrained(tiny_bert).parameters())
    assert frame["parameters"].tolist() == [whole, whole]
    assert frame["nonzero"][1] == made.record.n_nonzero
    assert frame["bytes_on_disk"].tolist() == [
        (path / "model.safetensors").stat().st_size for path in (tiny_bert, made.path)
    ]
    assert frame["bytes_estimated"].isna().tolist() == [True, False]
    assert frame["speedup"][0] == 1
    assert (frame["speedup_low"] <= frame["speedup"]).all()
    assert (frame["pieces_per_second"] > frame["words_per_second"]).all()


def test_there_is_something_to_measure(tiny_bert: Path) -> None:
    with pytest.raises(BertologyError, match="one repeat or more"):
        size_and_speed([tiny_bert], ["The dogs ."], repeats=0)
