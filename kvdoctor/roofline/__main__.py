"""`python -m kvdoctor.roofline MODEL ...` is `kvdoctor roofline MODEL ...`."""

import sys

from kvdoctor.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["roofline"]
    main()
