"""What orchestrators tell, as plain values. Numbers that JSON carries as texts are numbers here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Mapping, Optional, Tuple


@dataclass(frozen=True)
class Wait:
    """The root of what a session waits for."""

    kind: str
    sentence: str
    remedy: str
    vnodes: int
    since_seconds: float


@dataclass(frozen=True)
class Session:
    id: str
    status: str
    reason: str
    network: str
    dataset: str
    step: int
    total_steps: int
    loss: Optional[float]
    validation_loss: Optional[float]
    validation_accuracy: Optional[float]
    samples_per_second: float
    step_root: str
    waits: Tuple[Wait, ...]

    @property
    def ended(self) -> bool:
        return self.status in ("done", "failed", "suspended", "deleted")


@dataclass(frozen=True)
class Metric:
    name: str
    step: int
    value: float
    vnode: str


@dataclass(frozen=True)
class Event:
    kind: str
    level: str
    message: str
    wall_ms: int


@dataclass(frozen=True)
class Progress:
    """One piece of news of a session that is watched."""

    session: Session
    metrics: Tuple[Metric, ...]
    events: Tuple[Event, ...]


@dataclass(frozen=True)
class Dataset:
    name: str
    hash: str
    kind: str
    samples: int
    bytes: int
    splits: Tuple[str, ...]


@dataclass(frozen=True)
class Model:
    name: str
    status: str
    reason: str
    source: str
    parameters: int


@dataclass(frozen=True)
class PNode:
    id: str
    name: str
    status: str
    vnodes: int
    load: float


def session_of(told: Mapping[str, Any]) -> Session:
    settings = told.get("settings", {})
    return Session(
        id=told.get("id", ""),
        status=told.get("status", ""),
        reason=told.get("reason", ""),
        network=settings.get("network", ""),
        dataset=settings.get("dataset", ""),
        step=int(told.get("step", 0)),
        total_steps=int(told.get("totalSteps", 0)),
        loss=_number(told, "loss"),
        validation_loss=_number(told, "validationLoss"),
        validation_accuracy=_number(told, "validationAccuracy"),
        samples_per_second=float(told.get("samplesPerSecond", 0)),
        step_root=told.get("stepRoot", ""),
        waits=tuple(_wait_of(one) for one in told.get("waits", [])),
    )


def progress_of(told: Mapping[str, Any]) -> Progress:
    return Progress(
        session=session_of(told.get("session", {})),
        metrics=tuple(metric_of(one) for one in told.get("metrics", [])),
        events=tuple(_event_of(one) for one in told.get("events", [])),
    )


def metric_of(told: Mapping[str, Any]) -> Metric:
    value = float(told.get("value", 0))
    return Metric(told.get("name", ""), int(told.get("step", 0)), value, told.get("vnode", ""))


def dataset_of(told: Mapping[str, Any]) -> Dataset:
    splits: List[str] = [one.get("name", "") for one in told.get("splits", [])]
    return Dataset(
        name=told.get("name", ""),
        hash=told.get("hash", ""),
        kind=told.get("kind", ""),
        samples=int(told.get("samples", 0)),
        bytes=int(told.get("bytes", 0)),
        splits=tuple(splits),
    )


def model_of(told: Mapping[str, Any]) -> Model:
    return Model(
        name=told.get("name", ""),
        status=told.get("status", ""),
        reason=told.get("reason", ""),
        source=told.get("source", ""),
        parameters=int(told.get("parameters", 0)),
    )


def pnode_of(told: Mapping[str, Any]) -> PNode:
    return PNode(
        id=told.get("id", ""),
        name=told.get("name", ""),
        status=told.get("status", ""),
        vnodes=int(told.get("vnodes", 0)),
        load=float(told.get("load", 0)),
    )


def _wait_of(told: Mapping[str, Any]) -> Wait:
    return Wait(
        kind=told.get("kind", ""),
        sentence=told.get("sentence", ""),
        remedy=told.get("remedy", ""),
        vnodes=int(told.get("vnodes", 0)),
        since_seconds=float(told.get("sinceSeconds", 0)),
    )


def _event_of(told: Mapping[str, Any]) -> Event:
    return Event(told.get("kind", ""), told.get("level", ""), told.get("message", ""), int(told.get("wallMs", 0)))


def _number(told: Mapping[str, Any], name: str) -> Optional[float]:
    """The wire leaves out what is zero: for these it means that nobody has told a number yet."""
    value = told.get(name)
    return None if value is None else float(value)
