// `node --import bench/plain/hook.ts`: the unchanged program, on plain text instead of TLS. It stands in for what opens connections, so
// that production has no way to do without encryption, and the benchmark still has something to compare it with.

import { registerHooks } from "node:module";

const instead = new Map(
  [
    ["../../src/protocol/grpc.ts", "./grpc.ts"],
    ["../../src/protocol/identity/pinned-http.ts", "./pinned-http.ts"],
  ].map(([real, plain]) => [
    new URL(real as string, import.meta.url).href,
    new URL(plain as string, import.meta.url).href,
  ]),
);
const own = new Set(instead.values());

registerHooks({
  resolve: (specifier, context, next) => {
    const found = next(specifier, context);
    const plain = own.has(context.parentURL ?? "") ? undefined : instead.get(found.url);
    return plain === undefined ? found : { ...found, url: plain };
  },
});
