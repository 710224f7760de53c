"""The pocket world in two languages: a dictionary, translation by rule, a corpus of pairs and text for pretraining.

``translation.py``, to be read first, turns the tree of a sentence into that of its translation; ``texts.py`` makes
corpora and documents of it, ``settings.py`` holds what can be chosen.
"""
