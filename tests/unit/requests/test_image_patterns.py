"""Which images a pattern allows. Each row that is refused is a way around the pattern."""

from __future__ import annotations

import pytest

from slotq_core.wire.training.image_patterns import algorithm_fits, image_fits, is_pattern

ECR = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("pattern", "image"),
    [
        ("*", "anything at all"),
        (f"{ECR}/team-a", f"{ECR}/team-a"),
        (f"{ECR}/team-a", f"{ECR}/team-a:1.2"),
        (f"{ECR}/team-a", f"{ECR}/team-a@{DIGEST}"),
        (f"{ECR}/team-a", f"{ECR}/team-a:1@{DIGEST}"),
        (f"{ECR}/team-a/*", f"{ECR}/team-a/torch/cpu:2"),
        (f"{ECR}/*", f"{ECR}/team-a:1"),
        ("*.dkr.ecr.us-east-1.amazonaws.com/pytorch-training", f"{ECR}/pytorch-training:2"),
        (f"{ECR}/team-a:2.*", f"{ECR}/team-a:2.1"),
        (f"{ECR}/team-a:latest", f"{ECR}/team-a"),
        (f"{ECR}/team-a@{DIGEST}", f"{ECR}/team-a@{DIGEST}"),
        (f"{ECR}/team-a@{DIGEST}", f"{ECR}/team-a:1@{DIGEST}"),
        (f"{ECR}/team-a:1@*", f"{ECR}/team-a:1@{DIGEST}"),
        ("registry.lab:5000/team-a", "registry.lab:5000/team-a:1"),
        ("registry.lab:*/team-a:1", "registry.lab:5000/team-a:1"),
        ("train", "train:1"),
    ],
)
def test_allowed(pattern: str, image: str):
    assert is_pattern(pattern)
    assert image_fits(pattern, image)


@pytest.mark.parametrize(
    ("pattern", "image"),
    [
        (f"{ECR}/team-a", f"{ECR}/team-ab:1"),
        (f"{ECR}/team-a", f"{ECR}/team-a/other:1"),
        (f"{ECR}/team-a/*", f"{ECR}/team-a/../team-b:1"),
        (f"{ECR}/team-a/*", f"{ECR}/team-a//team-b:1"),
        (f"{ECR}/team-a/*", f"{ECR}/team-a/%2e%2e/team-b:1"),
        (f"{ECR}/team-a", f"{ECR}/Team-A:1"),
        (f"{ECR}/team-a", f"{ECR.upper()}/team-a:1"),
        (f"{ECR}/team-a", f" {ECR}/team-a:1"),
        (f"{ECR}/team-a", f"{ECR}/team-a:1\n"),
        (f"{ECR}/team-a", f"{ECR}/team-\u0430:1"),  # Cyrillic
        (f"{ECR}/team-a", f"{ECR}/team-\uff41:1"),  # full width
        (f"{ECR}/team-a", f"https://{ECR}/team-a:1"),
        (f"{ECR}/team-a", f"me@{ECR}/team-a:1"),
        (f"{ECR}/team-a", f"{ECR}:5000/team-a:1"),
        (f"{ECR}/team-a", f"evil.example.com/{ECR}/team-a:1"),
        # A star in the registry's host does not reach into the repository.
        (
            "*.dkr.ecr.us-east-1.amazonaws.com/pytorch-training",
            "evil.example.com/x.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:1",
        ),
        # A digest decides, whatever tag stands before it.
        (f"{ECR}/team-a:2.*", f"{ECR}/team-a:2.1@{DIGEST}"),
        (f"{ECR}/team-a:2.*", f"{ECR}/team-a@{DIGEST}"),
        (f"{ECR}/team-a:2.*", f"{ECR}/team-a"),
        (f"{ECR}/team-a:2.*", f"{ECR}/team-a:3"),
        (f"{ECR}/team-a@{DIGEST}", f"{ECR}/team-a@sha256:{'b' * 64}"),
        (f"{ECR}/team-a@{DIGEST}", f"{ECR}/team-a"),
        (f"{ECR}/*", "arn:aws:sagemaker:us-east-1:1:algorithm/x"),
        ("train", "evil/train:1"),
        ("*/train", "train:1"),
        (f"{ECR}/team-a", ""),
        (f"{ECR}/*", f"{ECR}/" + "a" * 2000),
    ],
)
def test_refused(pattern: str, image: str):
    assert not image_fits(pattern, image)


@pytest.mark.parametrize(
    ("pattern", "algorithm", "allowed"),
    [
        (
            "arn:aws:sagemaker:*:123456789012:algorithm/*",
            "arn:aws:sagemaker:us-east-1:123456789012:algorithm/x",
            True,
        ),
        ("*", "xgboost", True),
        (
            "arn:aws:sagemaker:*:123456789012:algorithm/*",
            "arn:aws:sagemaker:us-east-1:210987654321:algorithm/x",
            False,
        ),
        ("arn:*", "xgboost", False),
        ("*/x", "arn:aws:sagemaker:us-east-1:123456789012:algorithm/x", False),
    ],
)
def test_algorithms(pattern: str, algorithm: str, *, allowed: bool):
    assert algorithm_fits(pattern, algorithm) == allowed
