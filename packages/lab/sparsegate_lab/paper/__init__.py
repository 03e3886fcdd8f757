"""The experiments of the paper."""

from .archive import Archive, save_studies
from .estimate import in_words, seconds_for
from .exhibit import Exhibit
from .exhibits import EXHIBITS
from .make_exhibit import Made, make
from .page import reproduction_page
from .training import train_all

__all__ = [
    "EXHIBITS",
    "Archive",
    "Exhibit",
    "Made",
    "in_words",
    "make",
    "reproduction_page",
    "save_studies",
    "seconds_for",
    "train_all",
]
