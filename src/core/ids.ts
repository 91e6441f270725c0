// Names of things, branded so that a session id cannot be passed where a VNode id is meant.
// All of them are plain strings on the wire and in the store.

import { fail } from "./errors.ts";
import { isObjectsOwn } from "./words/table.ts";

declare const brand: unique symbol;
type Branded<Name extends string> = string & { readonly [brand]: Name };

export type NetworkId = Branded<"NetworkId">;
export type SessionId = Branded<"SessionId">;
/** `model@nonce`; no session can be called so. */
export type ReplicaId = Branded<"ReplicaId">;
/** Of what is placed as a whole and has VNodes: a training session, or a replica of a served model. */
export type WorkloadId = SessionId | ReplicaId;
/** `job-` and the hash of its owner and key. */
export type JobId = Branded<"JobId">;
export type VNodeId = Branded<"VNodeId">;
export type PNodeId = Branded<"PNodeId">;
export type OrchestratorId = Branded<"OrchestratorId">;
/** Of whoever holds the key: a PNode, a network, a person (keys.ts). */
export type KeyId = Branded<"KeyId">;
/** `from.slot>to.slot`, unique within a network. */
export type EdgeId = Branded<"EdgeId">;
/** 64 lower-case hex digits. */
export type Sha256 = Branded<"Sha256">;

/** Longer names would not fit store keys and terminal columns. */
export const idLengthMax = 128;

const idPattern = /^[A-Za-z0-9][A-Za-z0-9_.-]*$/;

export function isId(text: string): boolean {
  return text.length <= idLengthMax && idPattern.test(text) && !isObjectsOwn(text);
}

/** Checks a name that came from outside; `what` says which one in the error. */
export function parseId<Id extends string>(text: string, what: string): Id {
  if (text.length === 0) fail("invalid_argument", `${what} is empty: give it a name`);
  if (text.length > idLengthMax)
    fail("invalid_argument", `${what} has ${text.length} characters, at most ${idLengthMax} are allowed`);
  if (!idPattern.test(text))
    fail(
      "invalid_argument",
      `${what} "${text}" may only use letters, digits, "_", "." and "-", and starts with a letter or digit`,
    );
  if (isObjectsOwn(text)) fail("invalid_argument", `${what} cannot be "${text}", a word of our own: choose another`);
  return text as Id;
}

const replicaMark = "@";
const noncePattern = /^[0-9a-f]{12}$/;

/** `nonce`: 12 hex digits that name the replicas of a model apart. */
export function replicaIdOf(model: string, nonce: string): ReplicaId {
  return `${model}${replicaMark}${nonce}` as ReplicaId;
}

export function isReplicaId(id: string): id is ReplicaId {
  return id.includes(replicaMark);
}

/** Checks the name of a session or replica that came from outside. */
export function parseWorkloadId(text: string): WorkloadId {
  if (!isReplicaId(text)) return parseId<SessionId>(text, "the session");
  const cut = text.lastIndexOf(replicaMark);
  parseId(text.slice(0, cut), "the replica's model");
  if (!noncePattern.test(text.slice(cut + 1)))
    fail("invalid_argument", `the replica "${text.slice(0, idLengthMax)}" does not end with 12 hex digits`);
  return text as ReplicaId;
}

export function parseSha256(text: string, what: string): Sha256 {
  if (!/^[0-9a-f]{64}$/.test(text)) fail("invalid_argument", `${what} "${text.slice(0, 80)}" is not a SHA-256 in hex`);
  return text as Sha256;
}
