"""The layer describes to its clients exactly the operations that the queue calls."""

from tests.built.layer import build_layer


def test_the_layer_s_clients_know_what_is_called_and_nothing_else(life, views, campaign):
    called = life.operations | views.operations | campaign.operations
    known = {(service, each) for service, its in build_layer.OPERATIONS.items() for each in its}
    assert called == known
