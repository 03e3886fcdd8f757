"""All attacks by name."""

from __future__ import annotations

from .attack import Attack
from .drawn_networks import Networks
from .files import FILES
from .flips import Flips
from .jsons import JSONS

ATTACKS: dict[str, Attack] = {"networks": Networks(), **FILES, **JSONS, "flips": Flips()}
