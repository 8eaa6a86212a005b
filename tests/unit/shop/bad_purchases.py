"""Values that are no purchase, and some odd ones that are. Python and SQL must agree on all of them."""

GOOD = {
    "purchaseId": "1",
    "userId": "2",
    "userFullName": '"Zoë"',
    "productId": "3",
    "quantity": "1",
    "totalPrice": "1.5",
}


def purchase(**changes: str | None) -> bytes:
    """A good purchase with some fields replaced by this JSON, or left out."""
    fields = {name: text for name, text in {**GOOD, **changes}.items() if text is not None}
    return ("{" + ",".join(f'"{name}":{text}' for name, text in fields.items()) + "}").encode()


ODD_BUT_GOOD: list[bytes] = [
    purchase(),
    purchase() + b"\n\n",
    b" " + purchase(),
    purchase(more='{"a":[1,2]}'),
    purchase()[:-1] + b',"userFullName":"the last one counts"}',
    purchase(userFullName='""'),
    purchase(userFullName=r'"a\u0000b \" \\ \n"'),
    purchase(purchaseId="9223372036854775807", quantity="2147483647", totalPrice="1e9"),
    purchase(userId="0", productId="0", totalPrice="0"),
    purchase(totalPrice="0.1234567890123456789"),
    purchase(totalPrice="12345678.5"),
]

BAD: list[bytes | None] = [
    purchase(totalPrice="1000000000.01"),
    purchase(totalPrice="1e30"),
    None,
    b"",
    b"not JSON",
    b"5",
    b"null",
    b'"text"',
    b"[]",
    b"{}",
    b"[" + purchase() + b"]",
    purchase()[:-1],
    purchase() + b" x",
    purchase() + b"}",
    purchase() + b"{}",
    purchase() + b',"x":1',
    b"\xef\xbb\xbf" + purchase(),
    purchase(userFullName='"?"').replace(b"?", b"\xff"),
    purchase().replace(b'"', b"'"),
    purchase(totalPrice="1,"),
    purchase(totalPrice="/* one */ 1"),
    *(purchase(**{name: None}) for name in GOOD),
    *(purchase(**{name: "null"}) for name in GOOD),
    *(purchase(**{name: "true"}) for name in GOOD),
    *(purchase(**{name: "{}"}) for name in GOOD),
    *(purchase(**{name: '"1"'}) for name in GOOD if name != "userFullName"),
    *(purchase(**{name: "-1"}) for name in GOOD),
    *(purchase(**{name: "1.0"}) for name in GOOD if name != "totalPrice"),
    *(purchase(**{name: "1" * 30}) for name in GOOD if name != "totalPrice"),
    purchase(purchaseId="01"),
    purchase(purchaseId="1e0"),
    purchase(quantity="0"),
    purchase(quantity="2147483648"),
    purchase(totalPrice="NaN"),
    purchase(totalPrice='"NaN"'),
    purchase(totalPrice="1e999"),
    purchase(userFullName="5"),
    purchase(userFullName='"a\tb"'),
    purchase(userFullName=r'"half of a pair: \ud800"'),
    purchase(purchaseId=None, PURCHASEID="1"),
]
