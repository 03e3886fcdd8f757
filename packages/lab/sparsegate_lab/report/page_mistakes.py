"""The part of a page on mistakes: the confusion matrix, and images taken for another class."""

from __future__ import annotations

import base64
import struct
import zlib

from sparsegate.web import Html, element, section

from .html_table import Head, folded, html_table
from .network_view import Mistakes, WrongImage


def mistakes_section(mistakes: Mistakes | None) -> Html | None:
    """A confusion matrix and some wrong images; None if they were not counted."""
    if mistakes is None:
        return None
    return section(
        "mistakes",
        "Mistakes",
        element("p", _says(mistakes), class_="quiet"),
        _matrix(mistakes),
        element("div", *(_figure(one) for one in mistakes.images), class_="wrong"),
        folded("Confusion matrix as numbers", _table(mistakes)),
    )


def _says(mistakes: Mistakes) -> str:
    counts = mistakes.counts
    total = sum(map(sum, counts))
    wrong = total - sum(row[place] for place, row in enumerate(counts))
    words = f"{wrong:,} of {total:,} test images are taken for another class."
    pairs = [
        (count, label, answer)
        for label, row in enumerate(counts)
        for answer, count in enumerate(row)
        if label != answer
    ]
    most, label, answer = max(pairs, default=(0, 0, 0))
    if most:
        names = mistakes.classes
        words += f" Most often, {most:,} times, {names[label]} is taken for {names[answer]}."
    return words


def _matrix(mistakes: Mistakes) -> Html:
    """Rows are labels, columns are answers; darker cells have a larger part of their row."""
    cells = []
    for label, row in enumerate(mistakes.counts):
        whole = max(1, sum(row))
        for answer, count in enumerate(row):
            kind = "right" if label == answer else "other"
            shade = f"opacity:{(count / whole) ** 0.4:.2f}"
            words = f"{mistakes.classes[label]} as {mistakes.classes[answer]}: {count:,}"
            cells.append(element("span", class_=kind, style=shade, title=words))
    columns = f"grid-template-columns:repeat({len(mistakes.classes)},1fr)"
    about = "Confusion matrix: a row for each label, a column for each answer"
    return element("div", *cells, class_="confusion", style=columns, role="img", aria_label=about)


def _table(mistakes: Mistakes) -> Html:
    heads = [Head("label"), *(Head(name, "n") for name in mistakes.classes)]
    rows = [
        (name, *(f"{count:,}" for count in row))
        for name, row in zip(mistakes.classes, mistakes.counts, strict=True)
    ]
    return html_table("Test images by label (rows) and answer (columns)", heads, rows)


def _figure(image: WrongImage) -> Html:
    words = f"{image.label}, taken for {image.answer}"
    picture = element(
        "img", src=png(image), width=image.width, height=image.height, alt=f"An image of {words}"
    )
    return element("figure", picture, element("figcaption", words))


def png(image: WrongImage) -> str:
    """The image as the address of a PNG file."""
    line = len(image.pixels) // image.height
    colors = line // image.width
    rows = [image.pixels[place : place + line] for place in range(0, len(image.pixels), line)]
    head = struct.pack(">IIBBBBB", image.width, image.height, 8, {1: 0, 3: 2}[colors], 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    chunks = [(b"IHDR", head), (b"IDAT", data), (b"IEND", b"")]
    content = b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
    whole = b"\x89PNG\r\n\x1a\n" + content
    return f"data:image/png;base64,{base64.b64encode(whole).decode()}"
