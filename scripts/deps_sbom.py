"""The bill of materials of what a wheel carries, in CycloneDX: PEP 770 has it in the wheel."""

import json
from pathlib import Path
from typing import Any

from deps import Library, pinned


def write(path: Path) -> None:
    """The libraries of deps.toml, as CycloneDX 1.6 has them."""
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "components": [component(library) for library in pinned()],
    }
    path.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")


def component(library: Library) -> dict[str, Any]:
    """One library: where its source is, and its checksum."""
    purl = f"pkg:github/{library.repository}@{library.tag}"
    source = {"type": "source-distribution", "url": library.url}
    return {
        "type": "library",
        "bom-ref": purl,
        "name": library.name,
        "version": library.version,
        "purl": purl,
        "licenses": [{"license": {"id": library.license}}],
        "externalReferences": [source | {"hashes": [{"alg": "SHA-256", "content": library.sha256}]}],
    }
