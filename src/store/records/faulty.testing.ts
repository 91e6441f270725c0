// A StateStore that fails as a database across a network does: requests that never arrive, replies that get
// lost after the write has happened. For conformance tests.

import { fail } from "../../core/errors.ts";
import type { StateStore } from "./state-store.ts";

export type StoreFault = "none" | "lost request" | "lost reply";
export type StoreMethod = "get" | "put" | "delete" | "list";

/** `nextFault` decides the fate of each call. */
export function withFaults(store: StateStore, nextFault: (method: StoreMethod) => StoreFault): StateStore {
  const faulty = async <Result>(method: StoreMethod, key: string, call: () => Promise<Result>): Promise<Result> => {
    const fault = nextFault(method);
    if (fault === "lost request")
      fail("unavailable", `the store did not answer ${method} "${key}": the request got lost`);
    const result = await call();
    if (fault === "lost reply") fail("unavailable", `the store did not answer ${method} "${key}": the reply got lost`);
    return result;
  };
  return {
    get: (key) => faulty("get", key, () => store.get(key)),
    put: (key, value, expected) => faulty("put", key, () => store.put(key, value, expected)),
    delete: (key, expected) => faulty("delete", key, () => store.delete(key, expected)),
    list: (prefix, options) => faulty("list", prefix, () => store.list(prefix, options)),
    watch: (prefix, onHint) => store.watch(prefix, onHint),
    close: () => store.close(),
  };
}
