"""Attacks the whole system at random, for minutes or for a night: `make torture`."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # threads of OpenMP do not survive the forks of the sandbox
