"""Trains until the file `--until` is there, and goes on from its last checkpoint."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

CHECKPOINTS = Path("/opt/ml/checkpoints")
SAVE_EVERY = 15
"""Steps between two checkpoints. The emulator uploads a file that has not changed for a moment."""


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--until", type=Path, required=True)
    asked, _ = arguments.parse_known_args()
    CHECKPOINTS.mkdir(parents=True, exist_ok=True)
    saved = CHECKPOINTS / "checkpoint.json"
    step = int(json.loads(saved.read_text())["step"]) if saved.exists() else 0
    print(f"goes on from step {step}" if step else "begins", flush=True)
    while not asked.until.exists():
        time.sleep(0.1)
        step += 1
        print(f"step {step} done", flush=True)
        if step % SAVE_EVERY == 0:
            unfinished = CHECKPOINTS / ".unfinished.json"
            unfinished.write_text(json.dumps({"step": step}))
            unfinished.replace(saved)
    model = Path(os.environ["SM_MODEL_DIR"]) / "model.json"
    model.write_text(json.dumps({"weights": [float(step)]}))


if __name__ == "__main__":
    main()
