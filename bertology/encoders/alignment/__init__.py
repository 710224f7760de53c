"""Alignment of the pieces that a model reads to the words that are analysed.

``pieces`` cuts natural text into pieces in windows and finds every word among them, by the character offsets that
``characters`` works on; ``words`` makes vectors of words, and attention between words, from those of pieces.
"""
