// The portable engine's training as one script, and the page that runs it.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { build } from "esbuild";

/** A file, named from this folder, with all that it imports, for whoever does not read TypeScript. */
export async function bundle(file: string, platform: "browser" | "node"): Promise<string> {
  const result = await build({
    entryPoints: [join(import.meta.dirname, file)],
    ...{ bundle: true, format: "esm", platform, write: false },
  });
  return result.outputFiles[0]?.text as string;
}

/** Serves the page isolated, as SharedArrayBuffer asks for. */
export async function serve(script: string): Promise<{ url: string; close: () => Promise<void> }> {
  const server = createServer((request, response) => {
    const path = request.url ?? "/";
    response.setHeader("Cross-Origin-Opener-Policy", "same-origin");
    response.setHeader("Cross-Origin-Embedder-Policy", "require-corp");
    if (path === "/")
      return response.setHeader("Content-Type", "text/html").end('<script type="module" src="/page.js"></script>');
    if (path === "/page.js") return response.setHeader("Content-Type", "text/javascript").end(script);
    return response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const close = () =>
    new Promise<void>((resolve) => {
      server.closeAllConnections();
      server.close(() => resolve());
    });
  return { url: `http://127.0.0.1:${port}/`, close };
}
