"""The layer's service descriptions have exactly the operations that the queue calls."""

from tests.built.layer import build_layer


def test_the_layers_clients_know_exactly_the_called_operations(life, views, campaign):
    called = life.operations | views.operations | campaign.operations
    known = {(service, each) for service, names in build_layer.OPERATIONS.items() for each in names}
    assert called == known
