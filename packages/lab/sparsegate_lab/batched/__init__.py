"""Trains many small networks at once; each result is that of a training alone."""

from .loop import ManyLoop, ManyWatcher
from .member import Late, Member, check_agreement
from .teacher import Opinion
from .train_many import finished, train_many

__all__ = [
    "Late",
    "ManyLoop",
    "ManyWatcher",
    "Member",
    "Opinion",
    "check_agreement",
    "finished",
    "train_many",
]
