"""Dead letters: rows that were turned away, as the targets of channels keep them.

`listing` counts them by reason, in every format that can be read back. `replay` sends those of a
topic back to the topics of their sources. `cli.dlq` shows both.
"""
