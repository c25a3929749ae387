"""The demo's training script: fits a small linear model, and resumes from its last checkpoint.

Any script needs only two steps to survive an eviction: save to its folder for checkpoints now and
then, and look there first. Each step's data depends only on the step's number, so an interrupted
training ends with exactly the same model as an uninterrupted one. Plain Python, without NumPy:
NumPy's libraries may sum in another order in another environment or on another processor, and the
last bits would differ.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from pathlib import Path

CHECKPOINTS = os.environ.get("SM_CHECKPOINT_DIR", "/opt/ml/checkpoints")
"""Only jobs on a node have the variable; all others have /opt/ml to themselves."""

Weights = list[float]

FEATURES, BATCH = 8, 32
RATE = 0.2
WANTED = [n / FEATURES for n in range(FEATURES)]
"""The model that generates the data."""
SAVE_EVERY = 10
"""Steps between two checkpoints."""


def begin() -> Weights:
    """The model before the first step."""
    return [0.0] * FEATURES


def improve(weights: Weights, step: int) -> tuple[Weights, float]:
    """Do one step of gradient descent on a fresh batch. Returns the new weights and the batch's
    loss."""
    chance = random.Random(step)  # noqa: S311 - data to learn from # nosec B311
    slopes, loss = [0.0] * FEATURES, 0.0
    for _ in range(BATCH):
        sample = [chance.uniform(-1.0, 1.0) for _ in range(FEATURES)]
        error = chance.uniform(-0.01, 0.01)
        error += sum((weights[n] - WANTED[n]) * value for n, value in enumerate(sample))
        loss += error**2 / BATCH
        slopes = [
            slope + error * value / BATCH for slope, value in zip(slopes, sample, strict=True)
        ]
    return [weight - RATE * slope for weight, slope in zip(weights, slopes, strict=True)], loss


def load(folder: Path) -> tuple[Weights, int]:
    """The weights and step of the last checkpoint; without a checkpoint, those of the beginning."""
    path = folder / "checkpoint.json"
    if not path.exists():
        print("no checkpoint: begins at step 0", flush=True)
        return begin(), 0
    saved = json.loads(path.read_text())
    weights, step = saved["weights"], saved["step"]
    print(f"checkpoint found: goes on from step {step}", flush=True)
    return weights, step


def save(folder: Path, weights: Weights, step: int) -> None:
    """Write a checkpoint atomically: a reader finds the old one or the new one."""
    unfinished = folder / ".unfinished.json"
    unfinished.write_text(json.dumps({"weights": weights, "step": step}))
    unfinished.replace(folder / "checkpoint.json")
    print(f"saved step {step}", flush=True)


def wait_for(file: Path | None) -> None:
    """Wait until the file exists. So the demo's eviction finds every job running, however slow the
    machine is. Your script does not need this."""
    while file is not None and not file.exists():
        time.sleep(0.05)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--steps", type=int, required=True)
    arguments.add_argument("--step-seconds", type=float, default=0.1)
    arguments.add_argument("--last-step-after", type=Path, help="a file to wait for")
    arguments.add_argument("--checkpoints", type=Path, default=Path(CHECKPOINTS))
    asked, _ = arguments.parse_known_args()
    model = Path(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))
    asked.checkpoints.mkdir(parents=True, exist_ok=True)
    weights, step = load(asked.checkpoints)
    due = time.monotonic()
    while step < asked.steps:
        if step == asked.steps - 1:
            wait_for(asked.last_step_after)
        weights, loss = improve(weights, step)
        step += 1
        due += asked.step_seconds
        time.sleep(max(0.0, due - time.monotonic()))
        print(f"step {step} loss {loss:.6f}", flush=True)
        if step % SAVE_EVERY == 0:
            save(asked.checkpoints, weights, step)
    (model / "model.json").write_text(json.dumps({"weights": weights, "step": step}))
    print(f"done after step {step}", flush=True)


if __name__ == "__main__":
    main()
