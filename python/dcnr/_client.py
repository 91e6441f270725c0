"""The client: what one does with a network from a program or a notebook."""

from __future__ import annotations

import base64
import os
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from ._datasets import column_of, manifest_of, sha256, values_of
from ._errors import DcnrError
from ._transport import PORT_DEFAULT, Json, Transport
from ._types import (
    Dataset,
    Metric,
    Model,
    PNode,
    Progress,
    Session,
    dataset_of,
    metric_of,
    model_of,
    pnode_of,
    progress_of,
    session_of,
)

ChatTurn = Mapping[str, str]


def connect(address: Optional[str] = None, *, api_key: Optional[str] = None, timeout_seconds: float = 60) -> "Client":
    """A client of the orchestrator at `address`: by default DCNR_ORCHESTRATOR, then this machine's.

    The key is by default DCNR_API_KEY. Nothing is sent before the first call.
    """
    chosen = address or os.environ.get("DCNR_ORCHESTRATOR") or f"127.0.0.1:{PORT_DEFAULT}"
    return Client(Transport(chosen, api_key or os.environ.get("DCNR_API_KEY"), timeout_seconds))


class Client:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @property
    def address(self) -> str:
        return self._transport.address

    # What is there

    def pnodes(self) -> List[PNode]:
        return [pnode_of(one) for one in self._pages("FleetService", "ListPNodes", "pnodes")]

    def networks(self) -> List[str]:
        return [one.get("id", "") for one in self._pages("NetworkService", "ListNetworks", "networks")]

    def datasets(self) -> List[Dataset]:
        return [dataset_of(one) for one in self._pages("DatasetService", "ListDatasets", "datasets")]

    def sessions(self) -> List[Session]:
        return [session_of(one) for one in self._pages("SessionService", "ListSessions", "sessions")]

    def models(self) -> List[Model]:
        told = self._transport.call("InferenceService", "ListModels", {})
        return [model_of(one) for one in told.get("models", [])]

    # Networks and data

    def create_network(self, definition: str, *, name: str = "") -> str:
        """From YAML; returns the name under which it can be trained. The same definition twice is the same network."""
        told = self._transport.call("NetworkService", "CreateNetwork", {"definition": definition, "id": name})
        return str(told.get("network", {}).get("id", ""))

    def add_dataset(
        self, name: str, inputs: Any, labels: Any = None, *, validation_share: float = 0.0, seed: int = 0
    ) -> Dataset:
        """Samples as NumPy arrays, pandas columns or frames, or lists; labels that are texts are names of classes.

        A share of them may be kept for validation: then there are the splits "train" and "validation".
        """
        columns = {"inputs": column_of("inputs", inputs)}
        if labels is not None:
            columns["labels"] = column_of("labels", labels)
        manifest = manifest_of(columns, validation_share, seed, self._upload)
        told = self._transport.call("DatasetService", "CreateDataset", {"name": name, "manifest": manifest})
        return dataset_of(told.get("dataset", {}))

    def add_frame(self, name: str, frame: Any, *, label: str, validation_share: float = 0.0, seed: int = 0) -> Dataset:
        """A pandas frame: the column `label` is to be learned, the others are the inputs."""
        if label not in frame.columns:
            known = ", ".join(str(one) for one in frame.columns)
            raise DcnrError("invalid_argument", f'the frame has no column "{label}", it has {known}')
        inputs = frame.drop(columns=[label])
        return self.add_dataset(name, inputs, frame[label], validation_share=validation_share, seed=seed)

    def delete_dataset(self, name: str) -> None:
        self._transport.call("DatasetService", "DeleteDataset", {"name": name})

    # Training

    def train(
        self,
        network: str,
        dataset: str,
        *,
        steps: int = 200,
        batch: int = 32,
        rate: float = 0.001,
        schedule: str = "constant",
        warmup_steps: int = 0,
        seed: int = 1,
        split: Optional[str] = None,
        validate_every: int = 0,
        numerics: str = "",
        checkpoint_every: int = 20,
        start_from: str = "",
        spread: int = 1,
        replicas: int = 1,
    ) -> Session:
        """Starts a session and returns at once; `watch` follows it.

        The same settings and seed give the same weights bit for bit, on any number of machines, through any failures.
        `split` is "train" where the dataset has one, else all of it.
        """
        if split is None:
            split = self._usual_split(dataset)
        settings = {
            "network": network,
            "dataset": dataset,
            "split": split,
            "validationSplit": "validation",
            "steps": str(steps),
            "batch": batch,
            "seed": str(seed),
            "numerics": numerics,
            "checkpointEvery": checkpoint_every,
            "validateEvery": validate_every,
            "initialState": start_from,
            "spread": spread,
            "replicas": replicas,
            "learningRate": {
                "schedule": schedule,
                "base": rate,
                "warmupSteps": str(warmup_steps),
                "finalShare": 0.1,
            },
        }
        told = self._transport.call("SessionService", "CreateSession", {"settings": settings, "start": True})
        return session_of(told.get("session", {}))

    def session(self, id: str) -> Session:
        return session_of(self._transport.call("SessionService", "GetSession", {"id": id}).get("session", {}))

    def watch(self, session: Union[str, Session]) -> Iterator[Progress]:
        """News of a session until it ends: how far it is, numbers, and events such as a machine that was lost."""
        for told in self._transport.stream("SessionService", "WatchSession", {"id": _id_of(session)}):
            progress = progress_of(told)
            yield progress
            if progress.session.ended:
                return

    def wait(self, session: Union[str, Session]) -> Session:
        """Until it has ended; one that failed is an error with its reason."""
        last: Optional[Session] = None
        for progress in self.watch(session):
            last = progress.session
        last = last or self.session(_id_of(session))
        if last.status == "failed":
            raise DcnrError("failed_precondition", f"session {last.id} failed: {last.reason}")
        return last

    def metrics(self, session: Union[str, Session], *names: str) -> List[Metric]:
        asked = {"session": _id_of(session), "names": list(names)}
        return [metric_of(one) for one in self._pages("SessionService", "ListMetrics", "metrics", asked)]

    def suspend(self, session: Union[str, Session]) -> Session:
        told = self._transport.call("SessionService", "SuspendSession", {"id": _id_of(session)})
        return session_of(told.get("session", {}))

    def resume(self, session: Union[str, Session]) -> Session:
        told = self._transport.call("SessionService", "StartSession", {"id": _id_of(session)})
        return session_of(told.get("session", {}))

    # Models

    def serve(self, source: Union[str, Session], *, name: str = "", replicas: int = 1) -> Model:
        """A session or an imported model, ready to be asked."""
        request = {"source": _id_of(source), "name": name, "replicas": replicas}
        return model_of(self._transport.call("InferenceService", "ServeModel", request).get("model", {}))

    def stop(self, model: Union[str, Model]) -> None:
        name = model.name if isinstance(model, Model) else model
        self._transport.call("InferenceService", "StopModel", {"name": name})

    def generate(
        self,
        model: Union[str, Model],
        prompt: Union[str, Sequence[ChatTurn]],
        *,
        max_tokens: int = 128,
        temperature: Optional[float] = None,
        top_k: Optional[int] = None,
        top_p: Optional[float] = None,
        seed: int = 0,
        stop: Sequence[str] = (),
    ) -> Iterator[str]:
        """Text as it is generated, piece by piece; `"".join(...)` for all of it.

        The prompt is a text, or a conversation: [{"role": "user", "content": "..."}], oldest turn first.
        """
        given = {"temperature": temperature, "topK": top_k, "topP": top_p}
        sampling: Dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        request: Dict[str, Any] = {
            "model": model.name if isinstance(model, Model) else model,
            "maxTokens": max_tokens,
            "stop": list(stop),
            "sampling": {**sampling, "seed": str(seed)},
        }
        if isinstance(prompt, str):
            request["prompt"] = prompt
        else:
            request["messages"] = [{"role": turn["role"], "content": turn["content"]} for turn in prompt]
        for told in self._transport.stream("InferenceService", "Generate", request):
            if told.get("text"):
                yield told["text"]

    def embed(self, model: Union[str, Model], text: Union[str, Sequence[int]]) -> List[float]:
        """One vector of length 1 for a text, or for token ids."""
        request: Dict[str, Any] = {"model": model.name if isinstance(model, Model) else model}
        if isinstance(text, str):
            request["text"] = text
        else:
            request["tokens"] = [int(token) for token in text]
        told = self._transport.call("InferenceService", "Embed", request)
        return [float(value) for value in told.get("values", [])]

    def forward(self, model: Union[str, Model], inputs: Any) -> Dict[str, Any]:
        """What a served network answers to samples: each of its outputs as nested lists, one entry per sample."""
        column = column_of("inputs", inputs)
        tensor = {
            "dtype": f"DATA_TYPE_{column.dtype.upper()}",
            "shape": [column.samples, *column.shape],
            "data": base64.b64encode(column.content).decode(),
        }
        name = model.name if isinstance(model, Model) else model
        told = self._transport.call("InferenceService", "Forward", {"model": name, "inputs": {"inputs": tensor}})
        return {output: values_of(one) for output, one in told.get("outputs", {}).items()}

    # Below everything

    def _usual_split(self, dataset: str) -> str:
        for known in self.datasets():
            if known.name == dataset:
                return "train" if "train" in known.splits else "all"
        return "train"

    def _upload(self, content: bytes) -> None:
        request = {"hash": sha256(content), "bytes": str(len(content)), "space": "BLOB_SPACE_DATASETS"}
        grant = self._transport.call("DatasetService", "GrantUpload", request)
        if not grant.get("present"):
            self._transport.put(grant.get("url", ""), grant.get("headers", {}), content)

    def _pages(self, service: str, method: str, field: str, asked: Optional[Mapping[str, Any]] = None) -> List[Json]:
        items: List[Json] = []
        token = ""
        while True:
            page = self._transport.call(service, method, {**(asked or {}), "pageToken": token})
            items.extend(page.get(field, []))
            token = page.get("nextPageToken", "")
            if not token:
                return items


def _id_of(session: Union[str, Session]) -> str:
    return session.id if isinstance(session, Session) else session


__all__: Tuple[str, ...] = ("ChatTurn", "Client", "connect")
