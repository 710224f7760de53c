"""From the name of a model to a loaded encoder.

``resolve`` finds the files of a model, ``folder`` reads and checks them, ``description`` makes a shape and a
fingerprint of them; none of these imports torch. ``load`` builds the encoder with the tokenizer that ``tokenizer``
examines; ``quiet`` keeps the model libraries silent and their errors to one line. Read ``load`` first.
"""
