"""The bucket of the account and region that holds the code, because Lambda takes code from its own
region alone.

Each call says who has to own the bucket: its name can be guessed, and a stranger who made it first
would hold the code that your functions run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from slotq.errors import NotConfigured
from slotq.transport.aws_errors import code_of

_HOME = "us-east-1"
"""The region whose buckets are made without naming it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeBucket:
    s3: Any
    """boto3's client of S3, in the region."""
    account: str
    region: str
    name: str

    def make(self) -> bool:
        """Make the bucket unless the account has it: private and encrypted. Returns whether it was
        made. Raises NotConfigured if the name is another account's, and ClientError."""
        try:
            self.s3.head_bucket(Bucket=self.name, ExpectedBucketOwner=self.account)
        except ClientError as error:
            if code_of(error) == "403":
                raise NotConfigured(
                    f"the bucket {self.name} is not this account's, or you may not use it: name "
                    "another one with --bucket"
                ) from None
            if code_of(error) not in {"404", "NoSuchBucket"}:
                raise
        else:
            return False
        where = {"LocationConstraint": self.region}
        places = {} if self.region == _HOME else {"CreateBucketConfiguration": where}
        self.s3.create_bucket(Bucket=self.name, ObjectOwnership="BucketOwnerEnforced", **places)
        self.s3.put_public_access_block(
            Bucket=self.name,
            ExpectedBucketOwner=self.account,
            PublicAccessBlockConfiguration={
                "BlockPublicAcls": True,
                "IgnorePublicAcls": True,
                "BlockPublicPolicy": True,
                "RestrictPublicBuckets": True,
            },
        )
        return True

    def fill(self, objects: Mapping[str, Path]) -> Iterator[str]:
        """Upload what is not there. A key names its contents, so what is there stays. Yields each
        key before its upload. Raises ClientError."""
        for key, path in objects.items():
            if not self._has(key):
                yield key
                self.s3.put_object(
                    Bucket=self.name,
                    Key=key,
                    Body=path.read_bytes(),
                    ChecksumAlgorithm="SHA256",
                    ExpectedBucketOwner=self.account,
                )

    def url(self, key: str) -> str:
        """The address of an object, for CloudFormation."""
        host = self.s3.meta.endpoint_url.removeprefix("https://")
        return f"https://{self.name}.{host}/{key}"

    def _has(self, key: str) -> bool:
        try:
            self.s3.head_object(Bucket=self.name, Key=key, ExpectedBucketOwner=self.account)
        except ClientError as error:
            if code_of(error) == "404":
                return False
            raise
        return True


def usual_name(account: str, region: str) -> str:
    return f"slotq-{account}-{region}"
