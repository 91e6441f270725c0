// What whoever looks at the page may do: asked of the orchestrator, so that buttons say beforehand what they need.

import { useKey } from "../access.ts";
import { rights } from "../api.ts";
import { useAsked } from "../live/asked.ts";

export type Scope = "generate" | "read" | "train" | "admin";

export interface Caller {
  readonly owner: string;
  readonly scopes: ReadonlySet<string>;
  /** Why a key that was shown is good for nothing; empty otherwise. */
  readonly refusal: string;
}

const askEveryMs = 60_000;

/** Undefined while it is not known: then nothing is held back, and the orchestrator decides. */
export function useCaller(): Caller | undefined {
  const key = useKey();
  const ask = async (): Promise<Caller> => {
    const { owner, scopes, refusal } = await rights.getCaller({});
    return { owner, scopes: new Set(scopes), refusal };
  };
  return useAsked(`caller ${key}`, ask, askEveryMs).value;
}

/** Administrators may do everything. */
export function may(caller: Caller | undefined, scope: Scope): boolean {
  return caller === undefined || caller.scopes.has(scope) || caller.scopes.has("admin");
}
