"""What a run came to, as one page of HTML that needs nothing else.

facts -> [charts, a wide and a narrow one each] -> page

The page loads nothing: styles and charts are in it, and it works without scripts.
"""

from tidegate.cli.report.facts import Arrival, EpochFacts, LateRow, Report, WindowFacts
from tidegate.cli.report.page import report_html

__all__ = ["Arrival", "EpochFacts", "LateRow", "Report", "WindowFacts", "report_html"]
