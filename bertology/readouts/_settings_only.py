"""Names that carry the settings of cloze and head probes, to which nothing is fitted."""

from bertology.readouts._registry import ReadoutKind

MASKED_LM_V1 = ReadoutKind(
    "masked_lm.v1", "bertology.readouts._heads:MaskedLmReadout", "the model's masked-LM head", reads="prompts"
)
NEXT_SENTENCE_V1 = ReadoutKind(
    "next_sentence.v1",
    "bertology.readouts._heads:NextSentenceReadout",
    "the model's next-sentence head",
    reads="prompts",
)
ATTENTION_V1 = ReadoutKind("attention.v1", None, "attention maps", reads="maps")
GATES_V1 = ReadoutKind("gates.v1", None, "what a model loses without its heads", reads="gates")
