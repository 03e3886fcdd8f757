"""Pages of runs: what the report draws, read from the folders that runs leave."""

from .comparison import make_comparison
from .run_page import PAGE, make_page

__all__ = ["PAGE", "make_comparison", "make_page"]
