// Works in a worker of their own with a deadline: the worker that answers heartbeats reads nothing that strangers wrote. One
// worker for all lanes, one work at a time; a work that takes too long ends with its worker. Browsers let nobody bound a worker's memory.

import type { Aside, Work } from "../core/aside.ts";
import { DcnrError, type ErrorCode } from "../core/errors.ts";

export interface AsideOrder {
  readonly name: string;
  readonly input: unknown;
}

export type AsideAnswer =
  | { readonly kind: "done"; readonly pieces: readonly unknown[] }
  | { readonly kind: "failed"; readonly code: ErrorCode; readonly message: string };

/** `script`: where aside-worker.ts is served. */
export function openTabAside(script: string): Aside {
  let worker: Worker | undefined;
  let last: Promise<unknown> = Promise.resolve();
  const perform = <Input, Piece>(work: Work<Input, Piece>, input: Input): Promise<Piece[]> =>
    new Promise((resolve, reject) => {
      worker ??= new Worker(script, { type: "module", name: "dcnr-aside" });
      const doing = worker;
      const end = (failure: DcnrError) => {
        clearTimeout(timer);
        doing.terminate();
        worker = undefined;
        reject(failure);
      };
      const timer = setTimeout(() => {
        const seconds = work.deadlineMs / 1_000;
        end(new DcnrError("invalid_argument", `${work.what} takes longer than ${seconds} s to read: make it smaller`));
      }, work.deadlineMs);
      doing.onerror = ({ message }) =>
        end(new DcnrError("invalid_argument", `${work.what} cannot be read: ${message}`));
      doing.onmessage = ({ data }: MessageEvent<AsideAnswer>) => {
        clearTimeout(timer);
        if (data.kind === "done") resolve(data.pieces as Piece[]);
        else reject(new DcnrError(data.code, data.message));
      };
      doing.postMessage({ name: work.name, input } satisfies AsideOrder);
    });
  return {
    run(work, input) {
      const result = last.then(() => perform(work, input));
      last = result.catch(() => {});
      return result;
    },
  };
}
