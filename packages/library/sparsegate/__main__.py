"""`python -m sparsegate`, which `accelerate launch -m sparsegate` needs."""

import sys

from sparsegate_lab.cli import main

if __name__ == "__main__":
    sys.exit(main())
