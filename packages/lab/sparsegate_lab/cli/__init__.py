"""The laboratory's verbs of the command: train, compare, frontier, sweep, report, reproduce."""
