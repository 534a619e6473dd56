"""The report of the demo: one page of HTML that loads nothing, and works without scripts."""

from tidegate.cli.report.page import Report, report_html

__all__ = ["Report", "report_html"]
