"""Writes train.tsv and dev.tsv from rated sentences of film reviews: python benchmarks/review_sentences.py FILE FOLDER.

FILE is movieReviewSnippets_GroundTruth.txt, which the source package of vaderSentiment 3.3.2 (PyPI) contains in
additional_resources/hutto_ICWSM_2014.tar.gz: 10,605 sentences, each rated by people from -4 to 4. Sentences that
are rated nearly neutral are left out. The order is random and always the same.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

NEUTRAL = 0.5  # ratings closer to zero than this are left out
NUM_DEV = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    lines = options.file.read_text(encoding="utf-8", errors="replace").splitlines()
    rated = [line.split("\t", 2) for line in lines]
    rows = [
        f"{text.strip()}\t{int(float(rating) > 0)}"
        for _, rating, text in rated
        if abs(float(rating)) >= NEUTRAL
    ]
    random.Random(0).shuffle(rows)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, some in (("dev", rows[:NUM_DEV]), ("train", rows[NUM_DEV:])):
        (options.folder / f"{name}.tsv").write_text("\n".join(some) + "\n", encoding="utf-8")
        print(f"{len(some):,} sentences in {options.folder / name}.tsv")


if __name__ == "__main__":
    main()
