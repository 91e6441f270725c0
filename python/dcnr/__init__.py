"""A small typed client of DCNR: connect, add datasets, train, watch, generate. The standard library is all it needs."""

from ._client import Client, connect
from ._errors import DcnrError
from ._types import Dataset, Event, Metric, Model, PNode, Progress, Session, Wait

__all__ = [
    "Client",
    "Dataset",
    "DcnrError",
    "Event",
    "Metric",
    "Model",
    "PNode",
    "Progress",
    "Session",
    "Wait",
    "connect",
]
