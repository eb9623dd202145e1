"""``python -m hwmodel``."""

import sys

from hwmodel.cli import main

if __name__ == "__main__":
    sys.exit(main())
