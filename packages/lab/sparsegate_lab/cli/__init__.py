"""The laboratory's verbs of the `sparsegate` command: train, compare, frontier, report and reproduce."""
