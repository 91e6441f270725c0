"""Arrays as datasets: content-addressed shards and a manifest that lists them, as `dcnr dataset add` writes them.

NumPy arrays and pandas frames are taken as they are; lists of numbers work without either.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ._errors import DcnrError

SHARD_BYTES = 8 << 20
_SAFE_TYPES = {"float32": 4, "int32": 4, "int64": 8, "uint8": 1}
# What DCNR's networks read: other kinds of numbers become the nearest of these, whole ones int32 where they fit.
_CONVERTED = {"float64": "float32", "float16": "float32", "bool": "uint8"}
_FORMATS = {"float32": "f", "int32": "i"}


class Column(NamedTuple):
    """One field of a dataset: its samples one after another, little-endian."""

    dtype: str
    shape: Tuple[int, ...]
    samples: int
    content: bytes
    classes: Optional[List[str]] = None


def column_of(name: str, values: Any) -> Column:
    """From a NumPy array, a pandas column or frame, or nested lists; texts are names of classes."""
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if hasattr(values, "__array_interface__"):
        return _column_of_array(name, values)
    return _column_of_list(name, list(values))


def _column_of_array(name: str, array: Any) -> Column:
    if array.ndim == 0:
        raise DcnrError("invalid_argument", f"{name} is one value: samples are expected, one after another")
    if array.dtype.kind in "OUS":
        return _column_of_list(name, array.tolist())
    kind = str(array.dtype.newbyteorder("="))
    dtype = _CONVERTED.get(kind, kind)
    if array.dtype.kind in "iu" and kind != "uint8":
        fits = array.size == 0 or (-(2**31) <= int(array.min()) and int(array.max()) < 2**31)
        dtype = "int32" if fits else "int64"
    elif dtype not in _SAFE_TYPES:
        dtype = "float32"
    content = array.astype(array.dtype.type if dtype == kind else dtype).astype(f"<{_code(dtype)}").tobytes(order="C")
    return Column(dtype, tuple(int(size) for size in array.shape[1:]), int(array.shape[0]), content)


def _code(dtype: str) -> str:
    return {"float32": "f4", "int32": "i4", "int64": "i8", "uint8": "u1"}[dtype]


def _column_of_list(name: str, values: Sequence[Any]) -> Column:
    if not values:
        raise DcnrError("invalid_argument", f"{name} has no samples")
    if isinstance(values[0], str):
        names = sorted({str(value) for value in values})
        places = {one: place for place, one in enumerate(names)}
        content = struct.pack(f"<{len(values)}i", *(places[str(value)] for value in values))
        return Column("int32", (), len(values), content, names)
    shape = _shape_of(values[0])
    flat: List[Any] = []
    for place, value in enumerate(values):
        if _shape_of(value) != shape:
            raise DcnrError("invalid_argument", f"{name}: sample {place} has the shape {_shape_of(value)}, the first {shape}")
        _flatten(value, flat)
    whole = all(isinstance(value, int) for value in flat) and name == "labels"
    dtype = "int32" if whole else "float32"
    try:
        return Column(dtype, shape, len(values), struct.pack(f"<{len(flat)}{_FORMATS[dtype]}", *flat))
    except struct.error as error:
        raise DcnrError("invalid_argument", f"{name} holds what is no {dtype}: {error}") from error


def _shape_of(value: Any) -> Tuple[int, ...]:
    if not isinstance(value, (list, tuple)):
        return ()
    return (len(value), *(_shape_of(value[0]) if value else ()))


def _flatten(value: Any, into: List[Any]) -> None:
    if isinstance(value, (list, tuple)):
        for one in value:
            _flatten(one, into)
    else:
        into.append(value)


def manifest_of(
    columns: Mapping[str, Column], validation_share: float, seed: int, upload: Callable[[bytes], None]
) -> str:
    """Uploads the shards and returns the manifest that lists them, as canonical JSON."""
    counts = {name: column.samples for name, column in columns.items()}
    if len(set(counts.values())) != 1:
        told = ", ".join(f"{name} ({count})" for name, count in counts.items())
        raise DcnrError("invalid_argument", f"the fields {told} differ in their number of samples")
    samples = next(iter(counts.values()))
    if samples == 0:
        raise DcnrError("invalid_argument", "there are no samples")
    widths = {name: len(column.content) // samples for name, column in columns.items()}
    if min(widths.values()) == 0:
        raise DcnrError("invalid_argument", "samples without any value cannot be stored")
    chunk = max(1, SHARD_BYTES // max(widths.values()))
    fields = [_field(name, column, widths[name], chunk, upload) for name, column in columns.items()]
    manifest = {
        "version": 1,
        "kind": "tensors",
        "samples": samples,
        "chunk": chunk,
        "fields": fields,
        "splits": _splits(validation_share, seed),
    }
    return json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _field(name: str, column: Column, width: int, chunk: int, upload: Callable[[bytes], None]) -> Dict[str, Any]:
    shards = []
    for start in range(0, column.samples, chunk):
        content = column.content[start * width : (start + chunk) * width]
        upload(content)
        shards.append({"hash": sha256(content), "bytes": len(content), "count": len(content) // width})
    field: Dict[str, Any] = {"name": name, "dtype": column.dtype, "shape": list(column.shape), "shards": shards}
    if column.classes is not None:
        field["classes"] = column.classes
    return field


def _splits(validation_share: float, seed: int) -> Dict[str, Any]:
    if validation_share == 0:
        return {}
    if not 0 < validation_share < 1:
        raise DcnrError("invalid_argument", f"a validation share of {validation_share} is impossible: between 0 and 1")
    border = 1 - validation_share
    return {
        "train": {"kind": "ratio", "seed": seed, "from": 0, "to": border},
        "validation": {"kind": "ratio", "seed": seed, "from": border, "to": 1},
    }


def values_of(tensor: Mapping[str, Any]) -> Any:
    """A tensor as JSON carries it, as nested lists."""
    dtype = str(tensor.get("dtype", "")).replace("DATA_TYPE_", "").lower()
    formats = {"float32": "f", "float64": "d", "int32": "i", "int64": "q", "uint8": "B", "bool": "?"}
    if dtype not in formats:
        raise DcnrError("unimplemented", f"values of the type {dtype or 'unknown'} cannot be read here")
    content = base64.b64decode(tensor.get("data", ""))
    flat = [value for (value,) in struct.iter_unpack(f"<{formats[dtype]}", content)]
    for size in reversed([int(size) for size in tensor.get("shape", [])][1:]):
        flat = [flat[start : start + size] for start in range(0, len(flat), size)] if size else flat
    return flat


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
