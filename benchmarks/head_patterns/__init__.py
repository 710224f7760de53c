"""How the classifiers of head patterns were made and scored; the package holds their weights and uses them.

``python -m benchmarks.head_patterns train`` fits and calibrates them, ``… score`` writes the model card, README.md.
"""
