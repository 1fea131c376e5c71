"""Files are replaced whole or not at all."""

import errno
import os
from contextlib import suppress
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """Replaces a file's content; mode and symlinks stay, and a failure leaves the file as it was and nothing beside it.

    Raises:
        OSError: it cannot be written; PermissionError also if the file is read-only in a folder that is not.
    """
    target = Path(os.path.realpath(path))
    existing = target.stat().st_mode if target.exists() else None
    if existing is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    temporary = target.parent / f".shapecheck-{os.urandom(8).hex()}"
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if existing is not None:
            temporary.chmod(existing & 0o7777)
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
