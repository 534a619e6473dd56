"""The parts of docs/reference that are generated from the code.

    <!-- make docs: keys Window kind gap_ms -->
    ... what the block `keys` makes of these arguments ...
    <!-- end -->

A page is written by hand around such blocks, and `make docs` fills them in place. What cannot be
said by code alone, such as what to do about an error, stands outside of them, where a test
demands it.
"""
