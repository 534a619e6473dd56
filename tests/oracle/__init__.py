"""The oracle: the rules of DESIGN section 2 in code, row by row, and as naive as they can be put.

    judge (R4, R5) -> enter or fold (R1, R8) -> send (R3, R6, R7) -> forget (R3)

It shares no line with `tidegate.core`, and it is written from the rules alone: where the two
differ, one of them has misread a rule.  Every window keeps all of its rows and counts them again
whenever it is sent.
"""
