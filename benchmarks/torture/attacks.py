"""All attacks by name."""

from __future__ import annotations

from .attack import Attack
from .commands import Commands
from .drawn_networks import Networks
from .files import FILES
from .flips import Flips
from .interruptions import INTERRUPTIONS
from .jsons import JSONS
from .network_files import NetworkFiles

ATTACKS: dict[str, Attack] = {
    "networks": Networks(),
    **FILES,
    **JSONS,
    "sgn": NetworkFiles(),
    "flips": Flips(),
    **INTERRUPTIONS,
    "commands": Commands(),
}
