"""What a site has answered under one round's keys: nothing else is answered under them again.

Sums of slightly different uploads under the same keys, or shares for two different sums, would bare
a client together. The record lies beside the versions of a client's state and not in them: whoever
asks names the version to start from, and would name the one before the answer.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from fedkf.core.payload import sync_folder
from fedkf.secure.protocol import Refusal


def only_once(folder: Path, seed: bytes, step: str, message: bytes, again: bool = True) -> None:
    """Refuse a step that was answered for another message; the same one may be repeated.

    Not so where it would not be answered the same `again`.
    """
    name = hashlib.sha256(seed + step.encode()).hexdigest()[:32]
    try:
        with open(folder / f"{name}.answered", "xb") as file:
            file.write(message)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        if (folder / f"{name}.answered").read_bytes() != message:
            raise Refusal(f"it has answered another {step} with this round's keys") from None
        if not again:
            raise Refusal(
                f"it has begun this {step} before, and other noise may not be behind the same masks"
            ) from None
    sync_folder(folder)  # before anything is answered: without its name the record is none
