"""Records as lines: read from any Kafka and printed, and read from lines and written. In plain Python, without extras.

=================  ==================================================================================================
`targets`          where reading begins: what the user wrote, and the offsets that it means
`reading`          records of a range with the outcome of their transactions, and following the end
`filters`          which of them are shown
`json_lines`       a record as one line of JSON, and back, byte for byte
`formatting`       a record as a format string wants it
`parsing`          lines of text, and of JSON, as records to be written
`producing`        records to be written, in batches, with or without a transaction
=================  ==================================================================================================
"""
