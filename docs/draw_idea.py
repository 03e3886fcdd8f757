"""Draws _static/idea.svg, the picture of how gates prune weights: python docs/draw_idea.py."""

from pathlib import Path

import numpy as np

SIZE = 8  # rows and columns of each matrix
CELL = 19
TOP = 62
INK = "#1f2937"
GREY = "#5b6472"
PAPER = "#ffffff"
POSITIVE = (37, 99, 175)
NEGATIVE = (201, 92, 30)
OPEN = (22, 128, 92)


def main() -> None:
    """Writes the picture next to this script."""
    random = np.random.default_rng(4)
    weights = random.normal(size=(SIZE, SIZE)).clip(-2, 2) / 2
    gates = np.where(random.random((SIZE, SIZE)) < 0.2, 0.75, 0.05)
    gates += random.random((SIZE, SIZE)) * 0.22
    kept = np.where(gates > 0.5, weights, 0.0)
    parts = [
        *_matrix(30, "weights", "your optimizer trains them", _signed(weights)),
        _symbol(206, "⊙"),
        *_matrix(230, "gates", "learned too: 0 closed, 1 open", _tint(gates, OPEN)),
        _arrow(400, 446, "finish"),
        *_matrix(464, "pruned weights", "exact zeros", _signed(kept)),
        _arrow(634, 690, "compress", y=TOP + 34),
        _arrow(634, 690, "sparse", y=TOP + 116),
        *_outcome(704, TOP + 16, "a small file", "stores only what is left"),
        *_outcome(704, TOP + 98, "a fast network", "skips the zeros"),
    ]
    Path(__file__).with_name("_static").joinpath("idea.svg").write_text(_document(parts))


def _document(parts: list[str]) -> str:
    head = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 880 246" '
        'font-family="Helvetica, Arial, DejaVu Sans, sans-serif" role="img">'
        "<title>Gates prune weights</title>"
        "<desc>Each weight has a gate between 0 and 1. Both are trained together. finish sets "
        "the weights of closed gates to zero; compress makes a small file and sparse a fast "
        "network.</desc>"
    )
    card = f'<rect width="880" height="246" rx="10" fill="{PAPER}"/>'
    return "\n".join([head, card, *parts, "</svg>"]) + "\n"


def _matrix(x: int, title: str, note: str, colours: list[list[str]]) -> list[str]:
    middle = x + SIZE * CELL / 2
    cells = [
        f'<rect x="{x + column * CELL}" y="{TOP + row * CELL}" width="{CELL - 2}" '
        f'height="{CELL - 2}" rx="3" fill="{colour}"/>'
        for row, line in enumerate(colours)
        for column, colour in enumerate(line)
    ]
    return [_text(middle, 42, title, bold=True), *cells, _text(middle, 234, note, colour=GREY)]


def _signed(values: np.ndarray) -> list[list[str]]:
    return [
        [_mixed(POSITIVE if value > 0 else NEGATIVE, abs(value)) for value in row] for row in values
    ]


def _tint(values: np.ndarray, colour: tuple[int, int, int]) -> list[list[str]]:
    return [[_mixed(colour, value) for value in row] for row in values]


def _mixed(colour: tuple[int, int, int], share: float) -> str:
    """A color on light gray; a share of zero is the gray itself."""
    share = 0.0 if share == 0 else 0.15 + 0.85 * float(share)
    return "#" + "".join(f"{round(share * part + (1 - share) * 238):02x}" for part in colour)


def _symbol(x: int, text: str) -> str:
    return (
        f'<text x="{x}" y="{TOP + 84}" text-anchor="middle" font-size="24" '
        f'fill="{INK}">{text}</text>'
    )


def _arrow(x: int, end: int, verb: str, *, y: int = TOP + 76) -> str:
    return (
        f'<path d="M{x} {y}H{end - 7}" stroke="{INK}" stroke-width="2"/>'
        f'<path d="M{end - 9} {y - 5}L{end} {y}L{end - 9} {y + 5}Z" fill="{INK}"/>'
        f'<text x="{(x + end) / 2}" y="{y - 9}" text-anchor="middle" font-size="13" '
        f'font-family="DejaVu Sans Mono, Consolas, monospace" fill="{INK}">{verb}</text>'
    )


def _outcome(x: int, y: int, title: str, note: str) -> list[str]:
    return [
        _text(x, y + 14, title, bold=True, anchor="start"),
        _text(x, y + 34, note, colour=GREY, anchor="start"),
    ]


def _text(
    x: float, y: float, text: str, *, colour: str = INK, bold: bool = False, anchor: str = "middle"
) -> str:
    size, weight = (16, "bold") if bold else (13, "normal")
    return (
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}" '
        f'font-weight="{weight}" fill="{colour}">{text}</text>'
    )


if __name__ == "__main__":
    main()
