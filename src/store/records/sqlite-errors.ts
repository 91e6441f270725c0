// SQLite's error codes as sentences: what is wrong with which file, and what to do about it.

import { DcnrError, type ErrorCode, messageOf } from "../../core/errors.ts";

/** The primary codes of https://www.sqlite.org/rescode.html that a person can do something about. */
const busy = 5;
const locked = 6;
const readOnly = 8;
const inputOutput = 10;
const corrupt = 11;
const full = 13;
const cannotOpen = 14;
const notADatabase = 26;

export function isBusy(thrown: unknown): boolean {
  const code = primaryCode(thrown);
  return code === busy || code === locked;
}

export function sqliteError(thrown: unknown, path: string): DcnrError {
  if (thrown instanceof DcnrError) return thrown;
  const [code, sentence] = explain(primaryCode(thrown), thrown, path);
  return new DcnrError(code, sentence, { cause: thrown });
}

function explain(code: number | undefined, thrown: unknown, path: string): [ErrorCode, string] {
  const detail = ((thrown as { errstr?: string }).errstr ?? messageOf(thrown)).replace(/\s+/g, " ");
  switch (code) {
    case busy:
    case locked:
      return ["unavailable", `the store ${path} has been locked by another process for too long: stop that process`];
    case full:
      return [
        "resource_exhausted",
        `the disk of the store ${path} is full: nothing was written, free some space and go on`,
      ];
    case corrupt:
    case notADatabase:
      return [
        "data_loss",
        `the store ${path} is damaged or not a store (${detail}): it was left as it is; restore it from a copy, or move it and its -wal file aside to start with an empty store`,
      ];
    case readOnly:
    case cannotOpen:
      return [
        "failed_precondition",
        `the store ${path} cannot be opened for writing (${detail}): check the path and its permissions`,
      ];
    case inputOutput:
      return [
        "unavailable",
        `the disk of the store ${path} failed (${detail}): what was being written may or may not be there; check the disk`,
      ];
  }
  const system = (thrown as { code?: string }).code;
  if (system === "ENOSPC")
    return ["resource_exhausted", `the disk of the store ${path} is full: free some space and go on`];
  if (system === "EACCES" || system === "EROFS" || system === "ENOTDIR" || system === "EEXIST")
    return [
      "failed_precondition",
      `the folder of the store ${path} cannot be used (${system}): check the path and its permissions`,
    ];
  return ["internal", `the store ${path} failed: ${detail}`];
}

/** Extended codes keep the primary one in their low byte. */
function primaryCode(thrown: unknown): number | undefined {
  const code = (thrown as { errcode?: unknown } | null)?.errcode;
  return typeof code === "number" ? code & 0xff : undefined;
}
