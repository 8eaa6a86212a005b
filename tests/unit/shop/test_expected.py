"""The rules of the shop in Python."""

import pytest

from fencepost.shop.expected import expected_invoice, expected_shipment, parse_output, parse_purchase
from tests.unit.shop.bad_purchases import BAD, ODD_BUT_GOOD, purchase


@pytest.mark.parametrize("value", BAD, ids=repr)
def test_a_bad_purchase_is_refused(value: bytes | None):
    assert parse_purchase(value) is None


@pytest.mark.parametrize("value", ODD_BUT_GOOD, ids=repr)
def test_an_odd_purchase_that_has_everything_is_taken(value: bytes):
    assert parse_purchase(value) is not None


def test_a_purchase_yields_an_invoice_and_a_shipment():
    found = parse_purchase(purchase(purchaseId="8", userId="1234"))
    assert found is not None
    assert expected_invoice(found) == {
        "purchaseId": 8, "userId": 1234, "productId": 3, "quantity": 1, "totalPrice": 1.5,
    }  # fmt: skip
    assert expected_shipment(found) == {
        "shipmentId": "S-8", "purchaseId": 8, "productId": 3, "userFullName": "Zoë",
        "address": "SomeStreet 71/11, 00-234 Warsaw", "quantity": 1,
    }  # fmt: skip


@pytest.mark.parametrize("value", [None, b"x", b"{}", b'{"purchaseId":"1"}', b'{"purchaseId":true}'])
def test_what_names_no_purchase_is_no_output(value: bytes | None):
    assert parse_output(value) is None
