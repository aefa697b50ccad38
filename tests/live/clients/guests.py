"""The users of the guarded brokers and the rules for them, written once for each broker."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from argon2 import PasswordHasher

ALICE = {"user": "alice", "password": "wonder land"}
BOB = {"user": "bob", "password": "bü1lder"}

# Who may do what; everything else is forbidden. The first level is a script's own name.
ALLOWED = {
    "alice": {"+/free/#": "both", "+/sealed/#": "publish", "+/attempt": "both"},
    "bob": {"+/free/#": "both", "+/closed/#": "both", "+/dora/#": "subscribe"},
    "dora": {"+/dora/#": "publish", "+/attempt": "both"},
}
_MOSQUITTO = {"both": "readwrite", "publish": "write", "subscribe": "read"}
_FIRELANE = {"both": ["publish", "subscribe"], "publish": ["publish"], "subscribe": ["subscribe"]}


def mosquitto_files(folder: Path) -> dict[str, Path]:
    """A password file made by mosquitto_passwd and an access list, as configuration."""
    passwords, rules = folder / "passwords", folder / "rules"
    passwords.touch(mode=0o600)
    for guest in (ALICE, BOB):
        subprocess.run(["mosquitto_passwd", "-b", passwords, guest["user"], guest["password"]], check=True)
    lines = []
    for user, allowed in ALLOWED.items():
        lines += [f"user {user}", *(f"topic {_MOSQUITTO[action]} {one}" for one, action in allowed.items())]
    rules.write_text("\n".join(lines) + "\n")
    return {"password_file": passwords, "acl_file": rules}


def firelane_settings() -> dict[str, Any]:
    """The same for the `exchange` section of a scenario; quick hashes, for what they keep is no secret."""
    hasher = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
    access = [
        {"who": user, "filter": one, "allow": _FIRELANE[action]}
        for user, allowed in ALLOWED.items()
        for one, action in allowed.items()
    ]
    users = {guest["user"]: {"password": hasher.hash(guest["password"])} for guest in (ALICE, BOB)}
    return {"anonymous": "never", "users": {**users, "dora": {}}, "access": access}
