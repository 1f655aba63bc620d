"""`python -m remanence` is the command `remanence`."""

from remanence.cli import main

if __name__ == "__main__":  # (processes that are started from it load this file too)
    main()
