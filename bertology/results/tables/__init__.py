"""The tidy tables of a run: rows and their schema, predictions of single items, and the files that hold them."""
