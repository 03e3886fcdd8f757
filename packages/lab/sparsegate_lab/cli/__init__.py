"""The laboratory's verbs of the `sparsegate` command: train, frontier, report and reproduce."""
