"""`python -m slotq.cli`: the same as the `slotq` program."""

from slotq.cli.main import main

if __name__ == "__main__":
    main()
