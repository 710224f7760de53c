"""Files of the Hugging Face hub: downloaded, or taken from its cache where there is no connection."""

from __future__ import annotations

import os
from pathlib import Path

from bertology.encoders.loading.quiet import quiet_download

WAIT_SECONDS = 10.0


def download(name: str, revision: str | None, patterns: tuple[str, ...], *, offline: bool) -> Path:
    """The folder with those files of a repository whose names fit the patterns."""
    from huggingface_hub import snapshot_download

    with quiet_download():
        return Path(
            snapshot_download(
                name,
                revision=revision,
                allow_patterns=list(patterns),
                local_files_only=offline,
                cache_dir=hub_cache(),
                endpoint=os.environ.get("HF_ENDPOINT") or None,
                etag_timeout=WAIT_SECONDS,
            )
        )


def is_offline() -> bool:
    """Whether the environment forbids to ask the hub."""
    # Read at each call, not when the hub's library was imported, so that setting it later still counts.
    return any(
        os.environ.get(name, "").upper() in {"1", "ON", "YES", "TRUE"}
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    )


def hub_cache() -> str | None:
    """The hub's cache folder, where the environment names one."""
    if cache := os.environ.get("HF_HUB_CACHE"):
        return cache
    home = os.environ.get("HF_HOME")
    return str(Path(home) / "hub") if home else None


def reason_of(error: Exception) -> str:
    """Why the hub gave no files, in a few words."""
    if is_offline():
        return "not in its cache, and HF_HUB_OFFLINE is set"
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return line.removeprefix("Got: ")[:160]
