// A whole network on this machine as separate processes: what `dcnr up` and `dcnr demo` start.

import { join } from "node:path";
import { withKey } from "../../protocol/routes/address.ts";
import { thisMachine } from "../flags/limits.ts";
import { LentHere, lentHereFolder } from "../lending/lent-here.ts";
import { confinedEnvironment, confinementFlags } from "./apart/confinement.ts";
import { dataDirectory } from "./directories.ts";
import { findLentGpus } from "./lent-gpus.ts";
import { tellingMeasured } from "./measured.ts";
import { type Child, startChild, stopChild } from "./processes.ts";

export interface LocalNetworkOptions {
  readonly directory: string;
  readonly listen: string;
  readonly pnodes: number;
  readonly cpusPerPNode: number;
  readonly store?: string;
  readonly blobs?: string;
  readonly logLevel: string;
}

interface Member {
  readonly name: string;
  readonly directory: string;
}

/** Tree names are easy to tell apart in a table, and to say aloud. */
const names = [
  "maple",
  "birch",
  "cedar",
  "alder",
  "hazel",
  "linden",
  "rowan",
  "aspen",
  "willow",
  "larch",
  "elm",
  "oak",
];

export class LocalNetwork {
  readonly orchestrator: Child;
  readonly pnodes: Child[];

  private constructor(orchestrator: Child, pnodes: Child[]) {
    this.orchestrator = orchestrator;
    this.pnodes = pnodes;
  }

  static async start(options: LocalNetworkOptions): Promise<LocalNetwork> {
    const [orchestrator, told] = await Promise.all([
      startChild("the orchestrator", [
        "orchestrator",
        ...["--listen", options.listen, "--dir", options.directory],
        ...(options.store ? ["--store", options.store] : []),
        ...(options.blobs ? ["--blobs", options.blobs] : []),
        ...["--log-level", options.logLevel],
      ]),
      options.pnodes > 0 ? tellingMeasured(dataDirectory(options.directory, process.env)) : {},
    ]);
    const pnodes: Child[] = [];
    const members = Array.from({ length: options.pnodes }, (_, index): Member => {
      const name = names[index] ?? `pnode-${index + 1}`;
      return { name, directory: dataDirectory(join(options.directory, "pnodes", name), process.env) };
    });
    const memoryBytes = reserveMemory(members);
    try {
      const starting = members.map((member, index) =>
        LocalNetwork.#startPNode(orchestrator, { ...member, index, memoryBytes }, options, told).then((child) =>
          pnodes.push(child),
        ),
      );
      await Promise.all(starting);
    } catch (error) {
      await Promise.all([...pnodes, orchestrator].map((child) => stopChild(child)));
      throw error;
    } finally {
      releaseMemory(members);
    }
    pnodes.sort((a, b) => a.name.localeCompare(b.name));
    return new LocalNetwork(orchestrator, pnodes);
  }

  static async #startPNode(
    { address, key }: Child,
    { name, directory, index, memoryBytes }: Member & { readonly index: number; readonly memoryBytes: number },
    options: LocalNetworkOptions,
    told: NodeJS.ProcessEnv,
  ): Promise<Child> {
    // One GPU has one queue: the first of them lends it.
    const gpus = index === 0 ? "auto" : "off";
    const args = [
      "join",
      key === undefined ? address : withKey(address, key),
      ...["--name", name, "--owner", name, "--dir", directory],
      ...["--cpus", String(options.cpusPerPNode), "--log-level", options.logLevel, "--wait"],
      ...["--gpu", gpus],
    ];
    await findLentGpus(directory, gpus);
    return startChild(name, args, told, {
      flags: confinementFlags({ directory, memoryBytes }),
      environment: confinedEnvironment(process.env, directory, { fallback: () => undefined }, {}),
    });
  }

  async stop(): Promise<void> {
    await Promise.all(this.pnodes.map((child) => stopChild(child, 3_000)));
    await stopChild(this.orchestrator, 3_000);
  }
}

/**
 * PNodes of one machine share its memory. Those that start at the same time have their parts at once, and need not wait for each
 * other to give way. Returns one part; 0 where nobody can tell.
 */
function reserveMemory(members: readonly Member[]): number {
  return withLentHere((here) => here.reserve(members)) ?? 0;
}

/** Of those that have not come. */
function releaseMemory(members: readonly Member[]): void {
  withLentHere((here) =>
    here.leave(
      members.map(({ directory }) => directory),
      process.pid,
    ),
  );
}

function withLentHere<T>(use: (here: LentHere) => T): T | undefined {
  try {
    const here = LentHere.open(lentHereFolder(process.env), thisMachine().memoryBytes);
    try {
      return use(here);
    } finally {
      here.close();
    }
  } catch {
    // PNodes say themselves what is the matter.
    return undefined;
  }
}
