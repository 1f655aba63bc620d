"""`python -m remanence` is the command `remanence`."""

from remanence.cli import main

main()
