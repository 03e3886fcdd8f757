"""Many small networks trained as one, each as if it were alone."""

from .finished import finished
from .late import Late
from .launch import train_many
from .loop import ManyLoop
from .member import Member, check_agreement
from .teacher import Opinion
from .watch import ManyWatcher

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
