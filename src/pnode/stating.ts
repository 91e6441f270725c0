// From what happened in an interval to what is signed about it: the same for the owner of a VNode and for whoever repeats
// what the owner did.

import type { SessionId, Sha256, VNodeId } from "../core/ids.ts";
import { type WrittenList, writeInputs, writeOutputs } from "../trust/lists.ts";
import type { Equation } from "../trust/statement.ts";
import type { Passage } from "../vnode/transcript.ts";

interface Whose {
  readonly session: SessionId;
  readonly vnode: VNodeId;
}

export interface Lists {
  readonly inputs: WrittenList;
  readonly outputs: WrittenList;
}

export function listsOf(whose: Whose, { from, to, inputs, outputs, keys }: Passage): Lists {
  const interval = { ...whose, from, to };
  return {
    inputs: writeInputs({ ...interval, messages: inputs, keys }),
    outputs: writeOutputs({ ...interval, ...outputs }),
  };
}

export interface Ends {
  readonly inputs: { readonly hash: Sha256; readonly content: Uint8Array };
  readonly outputs: { readonly hash: Sha256; readonly content: Uint8Array };
  readonly after: Sha256;
  readonly afterBytes: number;
  readonly life: { readonly name: string; readonly before: string };
}

export function equationOf(
  whose: Whose,
  { from, to, edges, validation }: Passage,
  { inputs, outputs, after, afterBytes, life }: Ends,
): Equation {
  return {
    ...whose,
    ...{ from, to, edges, after, afterBytes, life: life.name, before: life.before },
    inputs: inputs.hash,
    inputsBytes: inputs.content.byteLength,
    outputs: outputs.hash,
    outputsBytes: outputs.content.byteLength,
    ...(validation ? { validation } : {}),
  };
}
