"""What every client must see of the broker, written once. A client's test module has it from `every_client`."""
