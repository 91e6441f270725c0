// The thread that asks the gate for signatures while another one waits (sign-at-once.ts). One after the other, as they come.

import { parentPort, workerData } from "node:worker_threads";
import { askGate, type GatePlace } from "../../protocol/gate/behind.ts";
import { encodeRecord, RecordReader } from "../../protocol/socket/records.ts";
import type { SignOrder } from "./sign-at-once.ts";

const socket = askGate(workerData as GatePlace, { ask: "sign" });
socket.on("error", () => socket.destroy());
const reader = new RecordReader(socket[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>);
let turn = Promise.resolve();

parentPort?.on("message", ({ content, state }: SignOrder) => {
  turn = turn.then(async () => {
    socket.write(encodeRecord(content));
    const signature = await reader.next(64).catch(() => undefined);
    const isSigned = signature !== undefined && signature.byteLength > 0;
    if (isSigned) new Uint8Array(state.buffer, 4).set(signature);
    Atomics.store(state, 0, isSigned ? 1 : 2);
    Atomics.notify(state, 0);
  });
});
