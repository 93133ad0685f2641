"""`python -m kvdoctor` is `kvdoctor`."""

from kvdoctor.cli import main

if __name__ == "__main__":
    main()
