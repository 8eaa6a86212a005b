"""TLS and SASL for both sides of a connection, under Kafka's names for settings.

Owns what a client and a broker must agree on: the SASL messages (`plain`, `scram`, `bearer`, `kerberos`), certificates
and keys in every format that Kafka reads (`stores`, `jks`, `tls`), a client's settings (`settings`, `jaas`,
`variables`) and where its tokens and tickets come from (`tokens`, `kerberos`). Nothing here opens a connection to a
broker or knows an API of Kafka: the client's side of that is in `client`, the broker's in `broker`.

Secrets: a value that holds one leaves it out when it is printed, and no error repeats it.
"""
