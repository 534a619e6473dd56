"""Java, for a broker of tests: the jars that scripts/need-kafka fetches, and how it starts fast.

    python -m tests.kafka_java        # makes the archive of classes that a broker loads

From the archive a broker starts in half the time. It is good for one version of Java and these
jars; where it is neither, Java does without it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

JARS: Final = Path(__file__).parent.parent / ".kafka"
ARCHIVE: Final = JARS / "broker.jsa"

_OPTIONS: Final = (
    *("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"),
    *("-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"),
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)


def java(main: Sequence[str], options: Sequence[str] = ()) -> list[str]:
    """The command that runs a class of Kafka with its arguments."""
    if not (JARS / "pom.xml").is_file():
        raise RuntimeError("Kafka is missing: scripts/need-kafka fetches it")
    shared = [f"-XX:SharedArchiveFile={ARCHIVE}"] if ARCHIVE.is_file() and not options else []
    jars = ":".join(str(jar) for jar in sorted(JARS.glob("*.jar")))
    return ["java", *_OPTIONS, *shared, *options, "-cp", jars, *main]


def format_storage(folder: Path, cluster: str) -> None:
    """Make the folder that the file `settings` names the storage of a new cluster."""
    command = java(["kafka.tools.StorageTool", "format", "-t", cluster, "-c", "settings"])
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        raise RuntimeError(f"StorageTool failed:\n{done.stdout}{done.stderr}")


def make_archive() -> None:
    """Run a broker, use it a little, and keep the classes that it has loaded."""
    from tests.kafka_broker import running_broker  # noqa: PLC0415  # which imports this

    made = ARCHIVE.with_suffix(".new")
    with running_broker(java_options=[f"-XX:ArchiveClassesAtExit={made}"]) as server:
        topic = server.new_topic()
        server.produce(topic, [b"1"])
        server.produce_in_transaction(topic, [b"2"], commit=True)
        assert len(server.records(topic)) == 2
        server.stop()
    made.replace(ARCHIVE)


if __name__ == "__main__":
    make_archive()
