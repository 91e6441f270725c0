// A directory with an identity in it has one user at a time. The operating system keeps the lock, so that one whose user
// was killed is free at once; a file beside it only says who has it.

import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fail } from "../../core/errors.ts";
import { sleep, type World } from "../../core/world.ts";
import { isBusy, sqliteError } from "../../store/records/sqlite-errors.ts";

/** Who uses a directory. */
export interface DirectoryUser {
  readonly pid: number;
  /** For example "dcnr up". */
  readonly command: string;
  readonly sinceMs: number;
  /** Where it can be reached, once it can. */
  readonly address?: string;
}

export interface HeldDirectory {
  /** Says more of the user than was known when it took the directory. */
  describe(address: string): void;
  release(): void;
}

/** One who was told to end, or whose parent was killed, needs a moment for it. */
const leavingMs = 10_000;
const retryMs = 200;

/** Waits for a user who is about to leave; fails with a sentence that says who stays. */
export async function holdDirectory(
  directory: string,
  command: string,
  world: Pick<World, "clock" | "timers">,
  waitMs = leavingMs,
): Promise<HeldDirectory> {
  const file = join(directory, "user.json");
  const began = world.clock.monotonicMs();
  for (;;) {
    const lock = tryLock(join(directory, "user.lock"));
    if (lock) return held(lock, file, { pid: process.pid, command, sinceMs: world.clock.wallMs() });
    if (world.clock.monotonicMs() - began >= waitMs)
      fail("failed_precondition", `${inUse(directory, userOf(file))} Choose another with --dir PATH`);
    await sleep(world.timers, retryMs);
  }
}

function held(lock: DatabaseSync, file: string, user: DirectoryUser): HeldDirectory {
  const describe = (address?: string) => {
    // A link in its place is not followed: commands of the owner's hold the directory, too.
    rmSync(file, { force: true });
    writeFileSync(file, `${JSON.stringify({ ...user, ...(address && { address }) })}\n`, { flag: "wx" });
  };
  describe();
  return {
    describe,
    release: () => {
      rmSync(file, { force: true });
      lock.close();
    },
  };
}

function inUse(directory: string, user: DirectoryUser | undefined): string {
  if (!user) return `the directory ${directory} is used by another process.`;
  const since = new Date(user.sinceMs).toTimeString().slice(0, 5);
  const where = user.address ? `, and can be reached at ${user.address}` : "";
  return `the directory ${directory} is in use: ${user.command} (process ${user.pid}) has it since ${since}${where}.`;
}

function userOf(file: string): DirectoryUser | undefined {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as DirectoryUser;
  } catch {
    return undefined;
  }
}

/** SQLite's lock of a file that holds nothing: the same on every system, and gone with its process. */
function tryLock(path: string): DatabaseSync | undefined {
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(path, { timeout: 0 });
    database.exec("BEGIN EXCLUSIVE");
    return database;
  } catch (error) {
    database?.close();
    if (isBusy(error)) return undefined;
    throw sqliteError(error, path);
  }
}
