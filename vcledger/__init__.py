"""The machine, and the name that other projects import.

Owns the wiring of the log (`eventstore`), the language (`volcano`) and the folds (`projections`), and all contact with
the world. Called by `cli` and by users' code.
"""
