"""`sparsegate inspect`: shows where the bits of a network go."""

from __future__ import annotations

from collections.abc import Sequence

from sparsegate.files import Packed
from sparsegate_runtime import Network
from sparsegate_runtime.network_file import table

from .arguments import Parser
from .savings import savings
from .source import open_source

ABOUT = (
    "Shows a network's tensors, how sparse they are, which units are dead, and the size of its "
    "file now and in other forms. If PATH is a network file (.sgn), shows its operations instead."
)
BAR = 40


def main(argv: Sequence[str]) -> None:
    """Parses the arguments, opens the network and prints the tables."""
    parser = Parser("inspect", ABOUT)
    parser.add_source("path")
    parser.add_model()
    options = parser.parse(argv)
    if options.path.suffix == ".sgn":
        print(table(Network.load(options.path)))
        return
    source = open_source(options.path, model=options.model)
    print("\n".join([str(source.packed), "", *bars(source.packed)]))
    print("\n".join(["", *savings(source, options.path)]))


def bars(packed: Packed) -> list[str]:
    """The share of each weight that is kept, as a bar."""
    weights = {
        name: entry
        for name, entry in packed.entries.items()
        if len(entry.shape) >= 2 and entry.total
    }
    width = max(map(len, weights), default=0)
    return [
        f"{name:{width}}  {_bar(entry.kept / entry.total)} "
        f"{100 * entry.kept / entry.total:6.2f} % kept"
        for name, entry in weights.items()
    ]


def _bar(share: float) -> str:
    full = round(share * BAR)
    return "#" * full + "." * (BAR - full)
