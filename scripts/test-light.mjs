// Loaded before a file of tests. Node's runner follows every promise, to know which test an error belongs to that nobody caught: an
// await then takes twenty times as long, and tests of whole networks in one process do little else. Here it follows everything but
// promises. Such an error still fails its file; it may only not be told in which test it came up.

import { createHook } from "node:async_hooks";

const hooks = Object.getPrototypeOf(createHook({}));
const { enable } = hooks;

hooks.enable = function () {
  const [, , caller = ""] = new Error().stack?.split("\n") ?? [];
  if (caller.includes("node:internal/test_runner"))
    // What createHook's option `trackPromises: false` does.
    for (const name of Object.getOwnPropertySymbols(this)) if (name.description === "kNoPromiseHook") this[name] = true;
  return enable.call(this);
};
