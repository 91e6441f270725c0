// Blobs for a page: by the orchestrator that served it and by nobody else, which is all that the page's policy allows. Nothing
// that a server says reaches an error.

import { codeOfBlobRefusal } from "../core/blobs.ts";
import { DcnrError, fail } from "../core/errors.ts";
import type { BlobAddress, BlobTransfer } from "../pnode/options.ts";

/** Without a byte that moves for so long, a transfer has failed. */
const stallMs = 30_000;
const answerMs = 180_000;

/** `origin`: of the page, "https://lab.example". `onForeign` hears of places where blobs lie that a page cannot reach. */
export function openTabTransfer(origin: string, onForeign: (host: string) => void): BlobTransfer {
  const own = new URL(origin).host;
  const check = ({ url }: BlobAddress) => {
    const { host } = new URL(url);
    if (host === own) return;
    onForeign(host);
    fail("unavailable", `a page transfers blobs with the orchestrator that served it, not with ${host}`);
  };
  return {
    async upload(to, content, signal) {
      check(to);
      const body = new Uint8Array(content);
      const { response, moved } = await ask(origin, to, { method: "PUT", body }, answerMs, signal);
      moved.stop();
      if (!response.ok) throw refusal(response.status, "unavailable");
    },
    async download(from, into, signal) {
      check(from);
      const { response, moved } = await ask(origin, from, {}, stallMs, signal);
      try {
        if (response.status !== 200 || response.body === null) throw refusal(response.status, "not_found");
        let at = 0;
        for await (const piece of response.body as unknown as AsyncIterable<Uint8Array>) {
          moved.again();
          if (at + piece.byteLength > into.byteLength) throw wrongLength(at + piece.byteLength, into.byteLength);
          into.set(piece, at);
          at += piece.byteLength;
        }
        if (at !== into.byteLength) throw wrongLength(at, into.byteLength);
      } catch (error) {
        throw DcnrError.from(error, "unavailable");
      } finally {
        moved.stop();
      }
    },
  };
}

interface Watch {
  again(): void;
  stop(): void;
}

async function ask(
  origin: string,
  { url, headers }: BlobAddress,
  init: RequestInit,
  patienceMs: number,
  outer: AbortSignal | undefined,
): Promise<{ response: Response; moved: Watch }> {
  const { pathname, search } = new URL(url);
  const stalled = new AbortController();
  let timer = setTimeout(() => stalled.abort(), patienceMs);
  const moved: Watch = {
    again: () => {
      clearTimeout(timer);
      timer = setTimeout(() => stalled.abort(), stallMs);
    },
    stop: () => clearTimeout(timer),
  };
  const signal = outer === undefined ? stalled.signal : AbortSignal.any([stalled.signal, outer]);
  const ruled: RequestInit = {
    redirect: "error",
    credentials: "omit",
    cache: "no-store",
    referrerPolicy: "no-referrer",
  };
  try {
    const response = await fetch(`${origin}${pathname}${search}`, { ...ruled, ...init, headers, signal });
    return { response, moved };
  } catch (error) {
    moved.stop();
    const why = stalled.signal.aborted ? "nothing moved for too long" : "it does not answer";
    throw new DcnrError("unavailable", `the transfer of a blob with ${origin} failed: ${why}`, { cause: error });
  }
}

function refusal(status: number, whenMissing: "unavailable" | "not_found"): DcnrError {
  return new DcnrError(codeOfBlobRefusal(status, whenMissing), `the orchestrator answered ${status} for a blob`);
}

function wrongLength(came: number, expected: number): DcnrError {
  return new DcnrError("data_loss", `a blob of ${expected} bytes was expected, ${came} came`);
}
