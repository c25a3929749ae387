"""The emulator's S3 where requests overlap."""

from moto.s3.models import FakeKey

from slotq.local.services import aws


def test_an_object_that_is_written_over_can_still_be_read() -> None:
    """A node reads its orders every two seconds, also while they are written."""
    aws._backend("s3")
    found = FakeKey(name="k", value=b"before", account_id="1", region_name="us-east-1")
    found.dispose()
    assert found.value == b"before"
