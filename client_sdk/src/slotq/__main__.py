"""`python -m slotq`: the `slotq` program without its script."""

from slotq.cli.main import main

if __name__ == "__main__":
    main()
