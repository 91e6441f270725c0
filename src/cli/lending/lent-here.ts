// Who lends how much of this machine's memory: a small file in which the PNodes of one user tell each other, so that all of them
// together never lend more than there is. Those of other users, and in containers with a home of their own, are not known.

import { mkdirSync, readFileSync } from "node:fs";
import { homedir, hostname } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { checkShare, fairBytes, type Lender, lendableBytes, type Wanting } from "./shares.ts";

/** Holds nothing else: PNodes may write here although they are confined to their own folders. */
export function lentHereFolder(environment: NodeJS.ProcessEnv): string {
  const state = environment["XDG_STATE_HOME"] || join(homedir(), ".local", "state");
  return join(state, "dcnr", "lending");
}

/** Where others write at the same moment. */
const busyMs = 5_000;

export interface OwnEntry {
  /** The PNode's folder, which has one user at a time: its entry is replaced by whoever uses it next. */
  readonly directory: string;
  readonly name: string;
  readonly wantsBytes: number;
}

interface Row extends Lender {
  readonly directory: string;
  readonly started: string;
}

export class LentHere {
  readonly #database: DatabaseSync;
  readonly #machineBytes: number;

  private constructor(database: DatabaseSync, machineBytes: number) {
    this.#database = database;
    this.#machineBytes = machineBytes;
  }

  static open(folder: string, machineBytes: number): LentHere {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    // Homes are shared between machines; memory is not.
    const database = new DatabaseSync(join(folder, `${hostname()}.sqlite`), { timeout: busyMs });
    database.exec(
      "CREATE TABLE IF NOT EXISTS lender (directory TEXT PRIMARY KEY, name TEXT, pid INTEGER, started TEXT, wantsBytes REAL, heldBytes REAL, lendsBytes REAL)",
    );
    return new LentHere(database, machineBytes);
  }

  /** Takes part from now on, with what is free at once; fails where nothing ever could be. */
  enter(own: OwnEntry): number {
    return this.#alone(() => {
      const others = this.#others(own.directory);
      checkShare(own, others, this.#machineBytes);
      return this.#write(own, process.pid, lendableBytes({ ...own, heldBytes: 0 }, others, this.#machineBytes), 0);
    });
  }

  /** Keeps equal parts for PNodes that this process is about to start: each enters with its own. Returns one part. */
  reserve(entries: readonly Omit<OwnEntry, "wantsBytes">[]): number {
    return this.#alone(() => {
      const own = new Set(entries.map(({ directory }) => directory));
      const others = this.#living().filter(({ directory }) => !own.has(directory));
      const rest = entries
        .slice(1)
        .map((): Lender => ({ name: "", pid: 0, wantsBytes: 0, heldBytes: 0, lendsBytes: 0 }));
      const fair = fairBytes({ wantsBytes: 0 }, [...others, ...rest], this.#machineBytes);
      const free = this.#machineBytes - others.reduce((sum, { lendsBytes }) => sum + lendsBytes, 0);
      const each = Math.max(0, Math.min(fair, Math.floor(free / entries.length)));
      for (const entry of entries) this.#write({ ...entry, wantsBytes: 0 }, process.pid, each, 0);
      return each;
    });
  }

  /** Looks who is there, and returns what this one lends from now on. `heldBytes` is what its VNodes need now. */
  share(own: OwnEntry, heldBytes: number): number {
    const wanting: Wanting = { ...own, heldBytes };
    const compute = () => lendableBytes(wanting, this.#others(own.directory), this.#machineBytes);
    const mine = this.#rows().find(({ directory }) => directory === own.directory);
    // Nobody waits for a lock while nothing changes.
    if (mine?.pid === process.pid && mine.heldBytes === heldBytes && mine.lendsBytes === compute())
      return mine.lendsBytes;
    return this.#alone(() => this.#write(own, process.pid, compute(), heldBytes));
  }

  others(directory: string): Lender[] {
    return this.#others(directory);
  }

  /** Only what a process of that number has entered. */
  leave(directories: readonly string[], pid = process.pid): void {
    const remove = this.#database.prepare("DELETE FROM lender WHERE directory = ? AND pid = ?");
    for (const directory of directories) remove.run(directory, pid);
  }

  close(): void {
    this.#database.close();
  }

  #write(own: OwnEntry, pid: number, lendsBytes: number, heldBytes: number): number {
    this.#database
      .prepare("INSERT OR REPLACE INTO lender VALUES (?, ?, ?, ?, ?, ?, ?)")
      .run(own.directory, own.name, pid, startOf(pid), own.wantsBytes, heldBytes, lendsBytes);
    return lendsBytes;
  }

  #others(directory: string): Row[] {
    return this.#living().filter((row) => row.directory !== directory);
  }

  #living(): Row[] {
    return this.#rows().filter(({ pid, started }) => lives(pid, started));
  }

  #rows(): Row[] {
    return this.#database.prepare("SELECT * FROM lender").all() as unknown as Row[];
  }

  /** Nobody else reads or writes meanwhile. What the dead left goes first. */
  #alone<T>(change: () => T): T {
    this.#database.exec("BEGIN IMMEDIATE");
    try {
      for (const { directory, pid, started } of this.#rows()) if (!lives(pid, started)) this.leave([directory], pid);
      const result = change();
      this.#database.exec("COMMIT");
      return result;
    } catch (error) {
      this.#database.exec("ROLLBACK");
      throw error;
    }
  }
}

/** Numbers of processes are used again: where the system tells, its start must be the same. */
function lives(pid: number, started: string): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EPERM") return false;
  }
  return startOf(pid) === started;
}

/** Since the machine started, in its own ticks; empty where the system does not tell. */
function startOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // After the name, which may hold anything.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    // One that has ended, and whose parent has not looked yet.
    return fields[0] === "Z" ? "ended" : (fields[19] ?? "");
  } catch {
    return "";
  }
}
