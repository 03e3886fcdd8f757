"""`python -m sparsegate`, which `accelerate launch -m sparsegate` needs."""

import sys

from sparsegate_runtime.command import main

if __name__ == "__main__":
    sys.exit(main())
