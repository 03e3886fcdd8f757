"""Weights and gates moved together, in one pass over memory; on a GPU by a kernel."""

from .launch import can_go_fast, move_gates_in_one_pass
from .optimizer import GatedSGD, take_over_

__all__ = ["GatedSGD", "can_go_fast", "move_gates_in_one_pass", "take_over_"]
