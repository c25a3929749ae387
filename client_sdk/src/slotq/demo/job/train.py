"""The demo's training script: fits a small linear model, and goes on from its last checkpoint.

What it does to survive an eviction is all that any script has to do: save now and then to
/opt/ml/checkpoints, and look there first. Each step's data depends on the step's number alone, so a
training that was interrupted ends with the very model of one that was not.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float64]

FEATURES = 32
RATE = 0.05
SAVE_EVERY = 10
"""Steps between two checkpoints."""


def begin() -> Weights:
    """The model before its first step."""
    return np.zeros(FEATURES)


def improve(weights: Weights, step: int) -> tuple[Weights, float]:
    """One step of gradient descent on a fresh batch; gives the new weights and the batch's loss."""
    chance = np.random.default_rng(step)
    batch = chance.normal(size=(64, FEATURES))
    wanted = batch @ np.linspace(-1.0, 1.0, FEATURES) + chance.normal(scale=0.01, size=64)
    error = batch @ weights - wanted
    return weights - RATE * (batch.T @ error) / len(batch), float(np.mean(error**2))


def load(folder: Path) -> tuple[Weights, int]:
    """The last checkpoint's weights and step; the beginning where there is none."""
    path = folder / "checkpoint.npz"
    if not path.exists():
        print("no checkpoint: begins at step 0", flush=True)
        return begin(), 0
    with np.load(path) as saved:
        weights, step = saved["weights"], int(saved["step"])
    print(f"checkpoint found: goes on from step {step}", flush=True)
    return weights, step


def save(folder: Path, weights: Weights, step: int) -> None:
    """Never a half-written checkpoint: whoever reads finds the old one or the new one."""
    unfinished = folder / ".unfinished.npz"
    np.savez(unfinished, weights=weights, step=step)
    unfinished.replace(folder / "checkpoint.npz")
    print(f"saved step {step}", flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--steps", type=int, required=True)
    arguments.add_argument("--step-seconds", type=float, default=0.1)
    arguments.add_argument("--checkpoints", type=Path, default=Path("/opt/ml/checkpoints"))
    asked, _ = arguments.parse_known_args()
    model = Path(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))
    asked.checkpoints.mkdir(parents=True, exist_ok=True)
    weights, step = load(asked.checkpoints)
    due = time.monotonic()
    while step < asked.steps:
        weights, loss = improve(weights, step)
        step += 1
        due += asked.step_seconds
        time.sleep(max(0.0, due - time.monotonic()))
        print(f"step {step} loss {loss:.6f}", flush=True)
        if step % SAVE_EVERY == 0:
            save(asked.checkpoints, weights, step)
    np.savez(model / "model.npz", weights=weights, step=step)
    print(f"done after step {step}", flush=True)


if __name__ == "__main__":
    main()
