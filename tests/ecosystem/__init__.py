"""Tests with the real packages that people start training from: `make ecosystem`.

Each package is in an environment of its own below `.cache/ecosystem`, and runs as a process against
the emulator. What the packages send is recorded into `tests/e2e/recorded`, and played again by the
ordinary tests (`tests/e2e/test_recorded.py`).
"""
