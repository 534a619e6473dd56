"""What a source of files can be told, checked all at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final, Literal

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline import Source
from tidegate.pipeline.fieldtypes import DurationMs, Name
from tidegate.pipeline.masking import shown
from tidegate.pipeline.validation import Rule, Value
from tidegate.sources.file_format import FileFormat
from tidegate.sources.file_listing import Listing
from tidegate.sources.line_files import LineFiles
from tidegate.sources.line_parsers import CsvLines, JsonLines
from tidegate.sources.parquet_files import ParquetFiles

FILE_FORMATS: Final = ("files", "parquet", "json", "csv")

_WHERE: Final = ("file://", "file:")


def path_is_local(options: FileOptions) -> Iterator[Problem]:
    """Object stores have no inodes, and no folder that can be listed at every poll."""
    if "://" in options.path.removeprefix("file://"):
        hint = "mount it, or read it as a stream of Spark with foreachBatch"
        yield Problem("path", shown(options.path), "a path of this machine or a mount", hint)


def only_csv_has_delimiters(options: FileOptions) -> Iterator[Problem]:
    """The others need none."""
    for name in ("header", "delimiter"):
        value = getattr(options, name)
        if value is not None and options.format != "csv":
            expected = f"no {name} with format={options.format!r}"
            yield Problem(name, shown(value), expected, "remove it")


def delimiter_is_one_character(options: FileOptions) -> Iterator[Problem]:
    """Longer ones are nobody's CSV."""
    value = options.delimiter
    if value is not None and not (len(value) == 1 and value.isascii() and value not in '"\r\n'):
        expected = "one ASCII character that is no quote and no line end"
        yield Problem("delimiter", shown(value), expected, "delimiter='\\t' for tabs")


class FileOptions(Value):
    """Where files are, how they are written, and when one is finished."""

    path: Name
    """A folder, a single file, or a glob such as `/data/clicks-*.json`."""
    format: Literal["parquet", "json", "csv"]
    """How the files are written: JSON is one object per line."""
    recursive: bool = False
    """Whether files in the folders below are read too."""
    settle_ms: DurationMs = 2_000
    """How long a file has to stay the same before it is read; two polls at least."""
    header: bool | None = None
    """CSV only: whether the first line names the columns; it does unless said otherwise."""
    delimiter: str | None = None
    """CSV only: what is between values; a comma unless said otherwise."""

    rules: ClassVar[tuple[Rule, ...]] = (
        path_is_local,
        only_csv_has_delimiters,
        delimiter_is_one_character,
    )

    @classmethod
    def of_source(cls, source: Source) -> FileOptions:
        """The options of a source, whose own format may say how its files are written."""
        written = {} if source.format == "files" else {"format": source.format}
        given = source.options.get("format", source.format)
        options = cls.from_dict({**source.options, **written}, at="options")
        if written and given != source.format:
            problem = Problem("options.format", shown(given), shown(source.format), "remove it")
            raise ConfigError([problem])
        return options

    @property
    def listing(self) -> Listing:
        """The files that are meant."""
        path = self.path
        for prefix in _WHERE:
            path = path.removeprefix(prefix)
        return Listing(path=path, recursive=self.recursive)

    def file_format(self, names: tuple[str, ...] | None = None) -> FileFormat:
        """How to read them; `names` are the columns in their order, for CSV without a header."""
        if self.format == "parquet":
            return ParquetFiles()
        if self.format == "json":
            return LineFiles(JsonLines())
        header = self.header is not False
        return LineFiles(CsvLines(header=header, delimiter=self.delimiter or ",", names=names))
