"""The laboratory's verbs of the `sparsegate` command: train, frontier, sweep, report and reproduce."""
