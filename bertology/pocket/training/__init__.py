"""Pretraining of Pocket BERT: recipe, examples, model folder, evaluation, and the run itself (``_pretrain.py``)."""
