// A statement: a signed equation about a pure function. From the state `before` and the listed inputs follow the listed
// outputs and the state `after`. Whoever can sign for a machine makes it once for each VNode and checkpoint interval, and
// anybody can repeat what it says.

import { base64Of, bytesOfBase64 } from "../core/bytes.ts";
import { fail } from "../core/errors.ts";
import { canonicalJson, sha256 } from "../core/hash.ts";
import { parseSha256, type Sha256 } from "../core/ids.ts";
import type { Interval } from "./lists.ts";
import type { Signing, VerifyBy } from "./signing.ts";

export interface Equation extends Interval {
  /** New at every start of the VNode. */
  readonly life: string;
  /** The state's name; empty where it follows from the seed. */
  readonly before: string;
  readonly after: Sha256;
  readonly afterBytes: number;
  readonly inputs: Sha256;
  readonly inputsBytes: number;
  readonly outputs: Sha256;
  readonly outputsBytes: number;
  /** By "f/edge" or "b/edge" (lists.ts `edgeRoot`), those that come in as well as those that go out. */
  readonly edges: Readonly<Record<string, string>>;
  /** Of the newest validation in the interval, where this VNode measures one. */
  readonly validation?: { readonly step: number; readonly loss: number };
}

export interface Statement extends Equation {
  /** Base64. */
  readonly publicKey: string;
  readonly signature: string;
}

/** The message Statement, which names no session and no VNode: whatever carries it does. */
export interface WireStatement {
  readonly from: bigint;
  readonly to: bigint;
  readonly life: string;
  readonly before: string;
  readonly after: string;
  readonly afterBytes: bigint;
  readonly inputs: string;
  readonly inputsBytes: bigint;
  readonly outputs: string;
  readonly outputsBytes: bigint;
  readonly edges: { [edge: string]: string };
  readonly validationLoss?: number | undefined;
  readonly validationStep: bigint;
  readonly publicKey: Uint8Array;
  readonly signature: Uint8Array;
}

const edgesMax = 4_096;
/** Two names of nodes with their slots, and the direction. */
const edgeLengthMax = 400;
export const lifeLengthMax = 64;

function contentOf({ session, vnode, from, to, life, before, after, inputs, outputs, edges, ...rest }: Equation) {
  const { validation, afterBytes, inputsBytes, outputsBytes } = rest;
  const equation = { session, vnode, from, to, life, before, after, inputs, outputs, edges, validation };
  const sizes = { afterBytes, inputsBytes, outputsBytes };
  return new TextEncoder().encode(`dcnr statement 1\n${canonicalJson({ ...equation, ...sizes })}`);
}

export async function signed(equation: Equation, signing: Pick<Signing, "publicKey" | "sign">): Promise<Statement> {
  const signature = await signing.sign(contentOf(equation));
  return { ...equation, publicKey: base64Of(signing.publicKey), signature: base64Of(signature) };
}

export function isSignedBy(statement: Statement, pnode: string, verify: VerifyBy): boolean {
  const { publicKey, signature, ...equation } = statement;
  return verify(pnode, bytesOfBase64(publicKey), contentOf(equation), bytesOfBase64(signature));
}

export function statementToWire(statement: Statement): WireStatement {
  const { from, to, life, before, after, inputs, outputs, edges, validation } = statement;
  return {
    ...{ life, before, after, inputs, outputs },
    ...{ from: BigInt(from), to: BigInt(to), edges: { ...edges } },
    afterBytes: BigInt(statement.afterBytes),
    inputsBytes: BigInt(statement.inputsBytes),
    outputsBytes: BigInt(statement.outputsBytes),
    validationStep: BigInt(validation?.step ?? 0),
    ...(validation === undefined ? {} : { validationLoss: validation.loss }),
    publicKey: bytesOfBase64(statement.publicKey),
    signature: bytesOfBase64(statement.signature),
  };
}

/** Refuses what has not the form of a statement; whether it is signed and true is another question. */
export function statementFromWire(wire: WireStatement, session: string, vnode: string): Statement {
  const edges = Object.entries(wire.edges);
  if (edges.length > edgesMax) fail("invalid_argument", `a statement about ${edges.length} edges: at most ${edgesMax}`);
  if (wire.life.length === 0 || wire.life.length > lifeLengthMax)
    fail("invalid_argument", "a statement names the life of its VNode");
  for (const [edge, root] of edges) {
    if (edge.length > edgeLengthMax) fail("invalid_argument", `an edge's name has at most ${edgeLengthMax} letters`);
    parseSha256(root, `the root of ${edge.slice(0, 80)}`);
  }
  return {
    ...{ session, vnode, life: wire.life },
    from: Number(wire.from),
    to: Number(wire.to),
    before: wire.before === "" ? "" : parseSha256(wire.before, "the state before"),
    after: parseSha256(wire.after, "the state after"),
    afterBytes: Number(wire.afterBytes),
    inputs: parseSha256(wire.inputs, "the list of inputs"),
    inputsBytes: Number(wire.inputsBytes),
    outputs: parseSha256(wire.outputs, "the list of outputs"),
    outputsBytes: Number(wire.outputsBytes),
    edges: Object.fromEntries(edges),
    ...(wire.validationLoss === undefined
      ? {}
      : { validation: { step: Number(wire.validationStep), loss: wire.validationLoss } }),
    publicKey: base64Of(wire.publicKey),
    signature: base64Of(wire.signature),
  };
}

/**
 * What a statement says came out: equal for everybody who computed rightly. What it says of its edges counts too, though that follows from the
 * lists: seams are compared by it, so whoever stated there what it never computed would pass for right otherwise.
 */
export function resultOf({ after, outputs, edges, validation }: Result): string {
  return `${after} ${outputs} ${sha256(canonicalJson({ edges, validation }))}`;
}

type Result = Pick<Statement, "after" | "outputs" | "edges" | "validation">;
