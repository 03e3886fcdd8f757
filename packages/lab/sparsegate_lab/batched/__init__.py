"""Many small networks trained as one, each as if it were alone."""

from .finetune import Late
from .loop import ManyLoop
from .member import Member, check_agreement
from .records import finished
from .teacher import Opinion
from .train_many import train_many
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
