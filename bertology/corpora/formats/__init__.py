"""Formats of annotated text: one reader a module, and the writers of CoNLL-U, spaCy and edge-probing files."""
